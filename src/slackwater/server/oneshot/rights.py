"""Rows of a replica under the rights of a caller."""

import pyarrow as pa

from slackwater.core.arrow import ARROW_TYPES
from slackwater.core.region import Region
from slackwater.core.schema import TableSchema
from slackwater.processing.columns import rows_schema
from slackwater.processing.regions import inside
from slackwater.server.oneshot.base import PRESENT


def masked(rows: pa.Table, region: Region, schema: TableSchema) -> pa.Table:
    """The table with `PRESENT` true for the rows that are there and lie in the region."""
    asked = {column for box in region for column in box.columns}
    columns = [
        rows.column(one.name).cast(ARROW_TYPES[one.type]).combine_chunks()
        if one.name in asked
        else pa.nulls(rows.num_rows, ARROW_TYPES[one.type])
        for one in schema.columns
    ]
    layout = pa.schema([one.with_nullable(True) for one in rows_schema(schema)])
    visible = inside(region, schema, pa.RecordBatch.from_arrays(columns, schema=layout))
    if PRESENT in rows.column_names:
        visible &= rows.column(PRESENT).to_numpy()
        rows = rows.drop_columns([PRESENT])
    return rows.append_column(PRESENT, pa.array(visible))
