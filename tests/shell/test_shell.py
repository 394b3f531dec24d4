"""The shell around a session: scripts, commands, the prompt, cells of notebooks."""

import re
import sys
from pathlib import Path

import pytest

import tidemill
from tidemill.cli import main
from tidemill.errors import StateError
from tidemill.shell.session import SqlSession
from tidemill.shell.shell import HELP, Quit, Shell, run_script

SHOP = Path(tidemill.__file__).parent / "demo" / "shop.sql"
SCRIPT = """CREATE TABLE t (a BIGINT, b STRING);
CREATE MATERIALIZED VIEW v AS SELECT b, sum(a) AS s FROM t GROUP BY b; -- a comment; with a semicolon
\\d v
INSERT INTO t VALUES (1, 'x;y'), (2, 'z');
SELECT * FROM v ORDER BY s DESC;
"""
OUT = """CREATE TABLE t
CREATE MATERIALIZED VIEW v
column  type    nullable  key
------  ------  --------  -----
b       string  True      False
s       int64   True      False
INSERT 2
b    s
---  -
z    2
x;y  1
"""


def test_a_script_is_run_to_its_end(tmp_path, capsys, monkeypatch):
    file = tmp_path / "script.sql"
    file.write_text(SCRIPT)
    assert main(["sql", str(file)]) == 0
    assert capsys.readouterr().out == OUT
    with file.open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert main(["sql"]) == 0
    assert capsys.readouterr().out == OUT


def test_a_script_that_fails_says_where(tmp_path, capsys):
    file = tmp_path / "script.sql"
    file.write_text(SCRIPT + "SELECT nope\nFROM t;\nSELECT 1;\n")
    assert main(["sql", str(file)]) == 1
    found = capsys.readouterr()
    assert found.out == OUT
    assert "no column `nope`" in found.err
    assert "(line 6, column 8)" in found.err
    assert main(["sql", str(tmp_path / "none.sql")]) == 1
    assert "none.sql cannot be read" in capsys.readouterr().err


@pytest.fixture
def typed():
    """Return what a shell answers to what is typed."""
    session = SqlSession()
    lines = []
    shell = Shell(session, lines.append)

    def say(text):
        lines.clear()
        shell.feed(text)
        return "\n".join(lines)

    say.shell = shell  # type: ignore[attr-defined]
    yield say
    session.close()


def test_commands(typed, tmp_path):
    typed("CREATE TABLE t (a BIGINT PRIMARY KEY); INSERT INTO t VALUES (1)")
    assert typed("\\d") == "name  kind   rows\n----  -----  ----\nt     table  1"
    assert "True" in typed("\\d t")
    assert typed("\\timing") == "timing is on"
    assert typed("SELECT a FROM t").endswith(" ms")
    assert typed("\\timing") == "timing is off"
    assert typed("\\?") == HELP
    assert "seconds" in typed("\\metrics")
    typed(f"\\graph {tmp_path / 'g.svg'}")
    assert (tmp_path / "g.svg").read_text().startswith("<svg")
    typed(f"\\save {tmp_path / 'saved'}")
    other = Shell(SqlSession(), lambda _: None)
    other.feed(f"\\load {tmp_path / 'saved'}")
    assert list(other.session.run.snapshot("t")) == [(1,)]
    with pytest.raises(StateError, match=r"no command \\dd: did you mean 'd'"):
        typed("\\dd")
    with pytest.raises(StateError, match="a number of seconds"):
        typed("\\watch often")
    with pytest.raises(Quit):
        typed("\\q")


def test_the_last_query_is_watched_until_ctrl_c(typed, monkeypatch):
    typed("CREATE TABLE t (a BIGINT); SELECT a FROM t; INSERT INTO t VALUES (1)")
    pauses = []

    def sleep(seconds):
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("tidemill.shell.shell.time.sleep", sleep)
    assert typed("\\watch 0.5") == "a\n-\n1\na\n-\n1\n"
    assert pauses == [0.5, 0.5]


def test_a_script_that_leaves_declared_views_unmade_has_failed(capsys):
    declared = "DECLARE RECURSIVE VIEW v (x INT); CREATE TABLE t (x INT);"
    assert run_script(declared, SqlSession()) == 1
    assert "views are declared, and never made: CREATE VIEW v" in capsys.readouterr().err
    assert (
        run_script(f"{declared} CREATE VIEW v AS SELECT x FROM t UNION SELECT x + 1 FROM v WHERE x < 2;", SqlSession())
        == 0
    )


def test_which_text_is_whole(typed):
    wants_more = typed.shell.wants_more
    assert [
        text for text in ("SELECT", "SELECT ';'", 'SELECT "a', "SELECT (", "SELECT 1 -- ;") if not wants_more(text)
    ] == []
    assert [text for text in ("SELECT 1;", "\\d", "", "  ", "SELECT ';' ; ") if wants_more(text)] == []


def test_the_prompt(monkeypatch, capsys, tmp_path):
    from prompt_toolkit.application import create_app_session
    from prompt_toolkit.document import Document
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    from tidemill.shell.prompt import completer, prompt

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    session = SqlSession()
    with create_pipe_input() as given, create_app_session(input=given, output=DummyOutput()):
        given.send_text("CREATE TABLE some_table (some_column BIGINT);\r")
        given.send_text("INSERT INTO some_table\rVALUES (1), (2);\r")  # over two lines
        given.send_text("SELECT sum(some_column)\rFROM some_table;\r")
        given.send_text("SELECT nope;\r\\q\r")
        assert prompt(session, "welcome") == 0
    out = capsys.readouterr().out
    assert out.startswith("welcome\nCREATE TABLE some_table\nINSERT 2\n")
    assert "\n3\n" in out
    assert "no column `nope`" in out
    assert "INSERT INTO some_table" in (tmp_path / "tidemill" / "history").read_text()
    offered = completer(session).get_completions(Document("SELECT a FROM some_"), None)
    assert [one.text for one in offered] == ["some_table", "some_column"]


def test_cells_of_a_notebook(capsys):
    from IPython.core.interactiveshell import InteractiveShell

    ipython = InteractiveShell.instance()
    shown = []
    try:
        ipython.run_line_magic("load_ext", "tidemill")
        cells = ipython.find_cell_magic("tidemill").__self__
        handles = []

        class Handle:
            def update(self, table):
                handles.append(list(table))

        def display(table, *, display_id=False):
            shown.append(table)
            return Handle() if display_id else None

        import IPython.display

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(IPython.display, "display", display)
            ipython.run_cell_magic("tidemill", "", "CREATE TABLE t (a BIGINT); SUBSCRIBE t; INSERT INTO t VALUES (1)")
            ipython.run_cell_magic("tidemill", "--graph", "SELECT a + 1 AS b FROM t")
            ipython.run_line_magic("tidemill", "INSERT INTO t VALUES (2)")
            ipython.run_line_magic("tidemill", "\\d")
        assert handles == [[(1,)], [(1,), (2,)]]
        assert [type(s).__name__ for s in shown] == ["Rows", "Rows", "Dataflow"]
        assert list(shown[1]) == [(2,)]
        assert "INSERT 1" in capsys.readouterr().out
        with pytest.raises(Exception, match="begin another with --new"):
            cells.magic("--dialect postgres", "SELECT 1")
        cells.magic("--new --dialect postgres", "CREATE TABLE T (A bigint)")
        assert list(cells.session.definitions) == ["t"]
    finally:
        cells.session.close()
        InteractiveShell.clear_instance()


def test_the_page_says_what_is_answered(typed):
    page = (Path(__file__).parents[2] / "docs" / "guides" / "shell.md").read_text()
    blocks = re.findall(r"```sql\n(.*?)```\n```text\n(.*?)```", page, re.DOTALL)
    assert blocks
    for script, expected in blocks:
        assert typed(script) + "\n" == expected


def test_the_demo_in_sql(capsys):
    assert main(["demo", "--sql"]) == 0
    out = capsys.readouterr().out
    assert out.count("\n=> ") == len(re.findall(r";$", SHOP.read_text(), re.MULTILINE))
    assert out.endswith("customer  spent\n--------  -----\nAda       24.50\nBob       20.50\n")
    changed = out.split("UPDATE categories")[1].split("=>")[0]
    assert re.findall(r"^(\w+) +([\d.]+) .*([+-]1)$", changed, re.MULTILINE) == [
        ("drinks", "41.00", "+1"),
        ("drinks", "45.00", "-1"),
    ]
