"""What is kept, and how it is read back: a directory a run, a directory a point.

RUN/run.json                 the manifest: written first
RUN/points/ID/launch.json    the point, its plan with the origin of every value, its digest
RUN/points/ID/records.jsonl  requests as they finish; becomes records.parquet at the close
RUN/points/ID/samples.jsonl  time series likewise
RUN/points/ID/server.log     what the engine printed
RUN/points/ID/metrics.*.txt  its metrics page before the load and after it
RUN/points/ID/client.json    the client's account of itself, and the engine's totals
RUN/points/ID/verdict.json   the verdict
RUN/points/ID/result.json    written last, atomically: its presence means done
RUN/points/ID.attempt-N/     what an interrupted or failed attempt left; never overwritten
"""

from typing import TYPE_CHECKING

from inferometer.deferred import by_name

if TYPE_CHECKING:
    from inferometer.store.events import EventBatch
    from inferometer.store.format import FORMAT
    from inferometer.store.journal import Journal
    from inferometer.store.records import (
        read_records,
        read_samples,
        record_journal,
        record_row,
        record_rows,
        sample_journal,
        sample_row,
    )
    from inferometer.store.rundir import (
        ClientFile,
        LaunchFile,
        Manifest,
        PlannedPoint,
        PointDir,
        RunDir,
        Versions,
    )
    from inferometer.store.series import RequestWords, SeriesMap
    from inferometer.store.table import ABSENT, STATUSES, RequestTable, table_of

__all__ = [
    "ABSENT",
    "FORMAT",
    "STATUSES",
    "ClientFile",
    "EventBatch",
    "Journal",
    "LaunchFile",
    "Manifest",
    "PlannedPoint",
    "PointDir",
    "RequestTable",
    "RequestWords",
    "RunDir",
    "SeriesMap",
    "Versions",
    "read_records",
    "read_samples",
    "record_journal",
    "record_row",
    "record_rows",
    "sample_journal",
    "sample_row",
    "table_of",
]

# The process that carries the load appends rows, and must not load what reads them back.
__getattr__ = by_name(
    __name__,
    {
        "events": "EventBatch",
        "format": "FORMAT",
        "journal": "Journal",
        "records": "read_records read_samples record_journal record_row record_rows sample_journal "
        "sample_row",
        "rundir": "ClientFile LaunchFile Manifest PlannedPoint PointDir RunDir Versions",
        "series": "RequestWords SeriesMap",
        "table": "ABSENT STATUSES RequestTable table_of",
    },
)
