"""The page of a report: one file with tables, charts and every debate that was kept, which needs no network.

`packing` makes the debates small and easy to find, `page` puts everything in its place, `assets` is what the browser
runs and how it looks.
"""
