"""TPC-DI: files of a broker's systems in the shapes of the specification, and views of three layers over them in SQL.

All is drawn from one seed. Names, texts and prices are random; what is left out are columns that only repeat others:
of three telephones one, of the calendar's texts one.
"""
