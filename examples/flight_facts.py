"""All that is known of flights from New York: a stack of left joins, to airlines, planes, both airports and weather.

No flight is lost for want of a fact: planes in no register and hours without weather leave NULL. What each join pads
is consolidated before the next one reads it, so that as many records go through the fifth join as through the first.
Needs the data of tidemill[demo].
"""

import tidemill as tm
from tidemill.demo.data import load
from tidemill.demo.flow import INPUTS


def build() -> tm.Dataflow:
    """Return the dataflow: flights and four tables in, a row for each flight out."""
    flow = tm.Dataflow("flight facts")
    flights, airlines, planes, airports, weather = (flow.input(name, columns) for name, columns in INPUTS.items())
    facts = (
        flights.select("id", "time_hour", "carrier", "tailnum", "origin", "dest")
        .join(airlines, on="carrier", how="left")
        .join(planes.select("tailnum", "model"), on="tailnum", how="left")
        .join(airports.rename(airport="leaves"), on={"origin": "faa"}, how="left")
        .join(airports.rename(airport="arrives"), on={"dest": "faa"}, how="left")
        .join(weather.select("origin", "time_hour", "wind_speed"), on=["origin", "time_hour"], how="left")
    )
    flow.output("facts", facts.select("id", "airline", "model", "leaves", "arrives", "wind_speed"))
    return flow


if __name__ == "__main__":  # show the first flights of the year; then a plane that gets into the register late
    year = load()
    with build().start() as run:
        for name, table in {"flights": year.flights.slice(0, 1000), **year.dimensions}.items():
            run.insert(name, table)
        late = next(row for row in year.dimensions["planes"].to_pylist() if row["tailnum"] == "N14228")
        run.delete("planes", [late])
        run.advance()
        print(*list(run.changes("facts"))[:4], sep="\n")
        run.insert("planes", [late])
        run.advance()
        print(run.changes("facts"))
