"""The session that `tm.local_spark` makes: what it sets where nothing is said, and what that saves."""

import tidemill as tm

DEBUGGING = "spark.python.sql.dataFrameDebugging.enabled"


def test_settings_that_are_given_come_first(spark):
    from tidemill.renderer.spark.session import session_settings

    assert session_settings({}) == {DEBUGGING: "false"}
    given = {"spark_ui_enabled": "false", "spark_python_sql_dataFrameDebugging_enabled": "true"}
    assert session_settings(given) == {"spark.ui.enabled": "false", DEBUGGING: "true"}
    assert tm.local_spark(spark_ui_enabled="true") is spark  # the active one, as it is


def test_a_column_takes_few_calls_to_java(spark, monkeypatch):
    """Where PySpark notes the line that made it, each takes more to look up the session, its settings, and to tell."""
    from py4j.clientserver import JavaClient
    from pyspark.sql import functions as F

    one, other = F.col("a"), F.col("b")
    calls = []
    send = JavaClient.send_command

    def counted(client, command, *args, **more):
        if command.startswith("c\n"):  # not what says that an object has gone
            calls.append(command)
        return send(client, command, *args, **more)

    monkeypatch.setattr(JavaClient, "send_command", counted)
    made = one == other
    assert isinstance(made, type(one))
    assert len(calls) == 1
