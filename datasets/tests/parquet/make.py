"""Writes rows.parquet with pyarrow 26 (nested columns, the three codecs, two row groups), and gsm8k.parquet in the form of openai/gsm8k. `pip install pyarrow && python make.py`"""

import pyarrow as pa
import pyarrow.parquet as pq

rows = [
    {"problem": "1 + 1?", "answer": 2, "score": 0.5, "messages": [{"role": "user", "content": "1 + 1?"}], "tests": {"input": ["1\n", "2\n"], "output": ["1", "2"]}},
    {"problem": "a\nb", "answer": None, "score": None, "messages": [], "tests": {"input": [], "output": []}},
    {"problem": "ü", "answer": -3, "score": 2.0, "messages": None, "tests": None},
]
codecs = {"problem": "snappy", "answer": "zstd", "score": "none", "messages.list.element.role": "gzip", "messages.list.element.content": "gzip", "tests.input.list.element": "zstd", "tests.output.list.element": "snappy"}
pq.write_table(pa.Table.from_pylist(rows), "rows.parquet", row_group_size=2, compression=codecs, store_schema=False)

questions = [
    {"question": "Tom has 3 apples and buys 4 more. How many has he?", "answer": "Tom has 3 + 4 = <<3+4=7>>7 apples.\n#### 7"},
    {"question": "A book costs $8. How much do 5 books cost?", "answer": "They cost 5 * 8 = <<5*8=40>>40 dollars.\n#### 40"},
]
pq.write_table(pa.Table.from_pylist(questions), "gsm8k.parquet", store_schema=False)
