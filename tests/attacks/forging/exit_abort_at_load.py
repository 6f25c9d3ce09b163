# Aborts while it is loaded.
# verdict: incorrect

import os
import sys

print("1 passed in 0.01s")
os.abort()
