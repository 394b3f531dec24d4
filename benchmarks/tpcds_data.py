"""Tables and queries of TPC-DS, by DuckDB's generator, into a folder; run by the interpreter that has it.

It needs ``duckdb`` and ``duckdb-extension-tpcds`` of one version, 1.5.5, and neither tidemill nor anything else.
"""

from __future__ import annotations

import json
from pathlib import Path


def generate(folder: str, scale: float) -> list[str]:
    """Write each table as Parquet, and the queries' texts by number as JSON; return the tables' names."""
    import duckdb  # noqa: PLC0415 - found in this interpreter alone
    import duckdb_extension_tpcds  # type: ignore[import-not-found]  # noqa: PLC0415

    (extension,) = Path(duckdb_extension_tpcds.__file__).parent.rglob("*.duckdb_extension")
    with duckdb.connect(config={"allow_unsigned_extensions": "true"}) as connection:
        connection.execute(f"LOAD '{extension}'")
        connection.execute(f"CALL dsdgen(sf={float(scale)})")
        names = [name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
        for name in names:
            connection.execute(f"COPY {name} TO '{Path(folder) / name}.parquet'")
        queries = connection.execute("SELECT query_nr, query FROM tpcds_queries()").fetchall()
    (Path(folder) / "queries.json").write_text(json.dumps(dict(queries)))
    return names
