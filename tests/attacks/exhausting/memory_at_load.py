# Takes all memory while it is loaded.
# verdict: memory incorrect

hoard = []
while True:
    hoard.append(bytes(1 << 20))
