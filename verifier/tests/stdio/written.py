"""Programs written by hand, for the rules on exits, reading, writing, blanks and numbers: `(source, stdin, expected stdout)`. What is right is for native CPython to say."""

SUM = "3\n1 2 3\n"
THREAD = """
import sys, threading
sys.setrecursionlimit(10**6)
threading.stack_size(2**27)
def depth(n):
    return 0 if n == 0 else 1 + depth(n - 1)
def main():
    print(depth(int(input())))
thread = threading.Thread(target=main)
thread.start()
thread.join()
"""

EXITS = [
    ("print(1)\n" + leave, "", "1")
    for leave in [
        "import sys; sys.exit()",
        "import sys; sys.exit(0)",
        "import sys; sys.exit(None)",
        "import sys; sys.exit(False)",
        "import sys; sys.exit(256)",
        "import sys; sys.exit(1)",
        "import sys; sys.exit(-1)",
        "import sys; sys.exit(True)",
        "import sys; sys.exit('wrong')",
        "import sys; sys.exit(2.5)",
        "raise SystemExit",
        "raise SystemExit(3)",
        "exit()",
        "quit(0)",
        "exit(7)",
        "import os; os._exit(0)",
        "import os, sys; sys.stdout.flush(); os._exit(0)",
        "import os, sys; sys.stdout.flush(); os._exit(4)",
        "raise ValueError('no')",
        "raise KeyboardInterrupt",
        "assert False",
        "1 / 0",
        "undefined",
        "import no_such_module",
        "def f(): return f()\nf()",
        "try:\n    raise SystemExit(0)\nfinally:\n    print(2)",
        "try:\n    import sys; sys.exit(1)\nexcept SystemExit:\n    pass",
        "import atexit; atexit.register(print, 2)",
        "import atexit; atexit.register(lambda: 1 / 0)",
        "import sys; sys.excepthook = lambda *error: print(2)\n1 / 0",
        "def f(:",
        "if True:\nprint(2)",
        "return 1",
        "import sys; sys.stdout.close()",
        "import sys; sys.stdin.close()",
        "import os; os.close(2)",
        "import threading\nt = threading.Thread(target=lambda: 1 / 0); t.start(); t.join()",
        "async def f(): raise ValueError\nimport asyncio; asyncio.run(f())",
    ]
]

READS = [
    (source, SUM, "6\n")
    for source in [
        "n = int(input())\nprint(sum(map(int, input().split())))",
        "import sys\nprint(sum(map(int, sys.stdin.read().split()[1:])))",
        "import sys\nlines = sys.stdin.readlines()\nprint(sum(map(int, lines[1].split())))",
        "import sys\nnext(sys.stdin)\nprint(sum(map(int, next(sys.stdin).split())))",
        "print(sum(map(int, open(0).read().split()[1:])))",
        "print(sum(map(int, open(0, 'rb').read().split()[1:])))",
        "with open(0) as file:\n    file.readline()\n    print(sum(map(int, file.readline().split())))",
        "import os\nprint(sum(map(int, os.read(0, os.fstat(0).st_size or 1 << 16).split()[1:])))",
        "import io, os\nread = io.BytesIO(os.read(0, 1 << 16)).readline\nread()\nprint(sum(map(int, read().split())))",
        "import fileinput\nlines = list(fileinput.input())\nprint(sum(map(int, lines[1].split())))",
        "import sys\ninput = lambda: sys.stdin.readline().rstrip()\ninput()\nprint(sum(map(int, input().split())))",
        "import sys\nsys.stdin = open(0)\ninput()\nprint(sum(map(int, input().split())))",
        "import sys, io\nsys.stdin = io.StringIO('1\\n2 2 2')\ninput()\nprint(sum(map(int, input().split())))",
        "input()\nprint(sum(map(int, input('numbers? ').split())))",
        "input(); input(); print(input())",
        "input(); input()\ntry:\n    input()\nexcept EOFError:\n    print(6)",
        "import sys\nsys.stdin.read()\nprint(6 if sys.stdin.read() == '' else 7)",
        "def main():\n    input()\n    print(sum(map(int, input().split())))\nif __name__ == '__main__':\n    main()",
        "def main():\n    print(6)\nif __name__ == 'main':\n    main()",
        "import __main__\nx = 6\nprint(__main__.x)",
        "import sys\nprint(6 if len(sys.argv) == 1 else 7)",
        "class Solution:\n    def solve(self, xs): return sum(xs)\ninput()\nprint(Solution().solve(list(map(int, input().split()))))",
        "from string import *\nfrom re import *\nfrom datetime import *\nfrom collections import *\nfrom heapq import *\nfrom math import *\nfrom random import *\nfrom itertools import *\nfrom functools import *\nfrom operator import *\nfrom io import *\nfrom sys import *\nfrom json import *\nfrom builtins import *\nfrom typing import *\nimport sys\ninput()\nprint(sum(map(int, sys.stdin.read().split())))",
        "import dataclasses, pickle\n@dataclasses.dataclass\nclass P:\n    x: int\nprint(pickle.loads(pickle.dumps(P(6))).x)",
        "import sys\nfor line in sys.stdin: pass\nprint(sum(map(int, line.split())))",
        "exec(compile('input()\\nprint(sum(map(int, input().split())))', 'x', 'exec'))",
    ]
]

OTHER_READS = [
    ("print(input() == '')", "", "True"),
    ("print(repr(input()))", "\n", "''"),
    ("print(repr(input()), repr(input()))", "a\r\nb\r\n", "'a' 'b'"),
    ("import sys; print(len(sys.stdin.buffer.read()))", "a\r\nb", "4"),
    ("s = input(); print(len(s), s[::-1])", "é漢🙂", "3 🙂漢é"),
    ("import sys; print(len(sys.stdin.buffer.read()))", "é漢🙂", "9"),
    ("print(sum(int(x) for x in open(0).read().split()))", " ".join(map(str, range(30_000))), "449985000"),
    ("import sys\ntotal = 0\nfor line in sys.stdin:\n    total += len(line)\nprint(total)", "x" * 199_999 + "\n", "200000"),
    (THREAD, "5000", "5000"),
    ("import sys\nsys.setrecursionlimit(20000)\ndef f(n): return 0 if n == 0 else 1 + f(n - 1)\nprint(f(9000))", "", "9000"),
    ("def f(n): return 0 if n == 0 else 1 + f(n - 1)\nprint(f(3000))", "", "3000"),
    ("print(int(input()))", "x", "0"),
    ("print(int(input()))", " 7 ", "7"),
]

WRITES = [
    (source, "", "1\n2\n")
    for source in [
        "print(1)\nprint(2)",
        "print(1, 2, sep='\\n')",
        "print('1\\n2', end='')",
        "print('1  \\n2\\t\\n\\n \\n')",
        "print('1\\r\\n2\\r\\n', end='')",
        "print('\\n1\\n2')",
        "print(' 1\\n2')",
        "print('1\\n\\n2')",
        "print('1 2')",
        "print(1)",
        "print('1\\n2\\n3')",
        "print(1, file=__import__('sys').stderr)\nprint(2)",
        "import sys; sys.stdout.write('1\\n2')",
        "import sys; sys.stdout.buffer.write(b'1\\n2')",
        "import sys; sys.stdout.buffer.write(b'\\xff1\\n2')",
        "import os; os.write(1, b'1\\n2')",
        "import os; print(1); os.write(1, b'2\\n')",
        "import os; print(1, flush=True); os.write(1, b'2\\n')",
        "import sys\nwith open(1, 'w', closefd=False) as out:\n    out.write('1\\n2')",
        "out = open(1, 'w')\nout.write('1\\n2')",
        "import io, sys\nsys.stdout = io.StringIO()\nprint(1)\nsys.stdout = sys.__stdout__\nprint('1\\n2')",
        "import io, sys\nsys.stdout = io.StringIO()\nprint('1\\n2')",
        "import io, sys\nsys.stdout = io.TextIOWrapper(sys.stdout.buffer, write_through=True)\nprint('1\\n2')",
        "import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as kept:\n    print('1\\n2')\nprint(kept.getvalue(), end='')",
        "class Late:\n    def __del__(self): print(2)\nlate = Late()\nprint(1)",
        "import atexit\nprint(1)\natexit.register(print, 2)",
        "import logging; logging.warning('1'); print('1\\n2')",
        "import threading\nprint(1)\nt = threading.Thread(target=print, args=(2,)); t.start(); t.join()",
        "import asyncio\nasync def main():\n    print(1)\n    await asyncio.sleep(0)\n    print(2)\nasyncio.run(main())",
        "import builtins\nbuiltins.print = None\nimport sys; sys.stdout.write('1\\n2')",
        "import sys\nsys.modules.clear()\nprint(1)\nprint(2)",
        "print = lambda *a: None\nprint(1)\nprint(2)",
        "import sys; sys.stdout.reconfigure(line_buffering=True); print('1\\n2')",
        "import warnings; warnings.warn('no'); print('1\\n2')",
        "print('1\\n2'); print('\\ud800')",
        "print('1\\n\\u0662')",
        "import pprint; pprint.pprint(1); pprint.pprint(2)",
        "import time; print(1); time.sleep(0.01); print(2)",
        "for i in range(1, 3): print(i)\nelse: print(end='')",
        "print('1\\x00\\n2')",
    ]
]

NUMBERS = [
    (f"print({written})", "", expected)
    for written, expected in [
        ("0.1 + 0.2", "0.3"),
        ("0.1 + 0.2", "0.30000000000000004"),
        ("1 / 3", "0.333333"),
        ("1 / 3", "0.33333"),
        ("1 / 3", "0.3333"),
        ("'%.3f' % 2.5", "2.5"),
        ("'2.50001'", "2.5"),
        ("1e6", "1000000.0"),
        ("1e6", "1000000"),
        ("10**6", "1e6"),
        ("1", "1.0"),
        ("1.0", "1"),
        ("'01'", "1"),
        ("-0.0", "0.0"),
        ("float('nan')", "nan"),
        ("float('nan')", "1.0"),
        ("float('inf')", "1e308"),
        ("10**18 + 1", "1000000000000000000"),
        ("'1.5 x 2.0'", "1.50 x 2"),
        ("'1.5  2.0'", "1.5 2.0"),
        ("'YES'", "yes"),
        ("[0.5, 1]", "[0.5, 1]"),
        ("[0.5, 1]", "[0.50, 1]"),
        ("1 + 2j", "(1+2j)"),
        ("'1_0.5'", "10.5"),
        ("'0x1.8'", "1.5"),
    ]
]

PROGRAMS = [*EXITS, *READS, *OTHER_READS, *WRITES, *NUMBERS]
