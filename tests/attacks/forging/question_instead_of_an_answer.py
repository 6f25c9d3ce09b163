# Asks on and on, and never returns.
# verdict: timeout memory incorrect
# task: printed

import _host


def solve(n):
    while True:
        _host.call(b'A["sys.stdout.writes",[["0\\n"]],{}]')
