def _rapid_patch_asyncio():
    """Gives asyncio event loops that wait for nothing but time: there are no sockets in a sandbox, of which its own loops need a pair."""
    import asyncio

    class Loop(asyncio.BaseEventLoop):
        def __init__(self):
            super().__init__()
            self._selector = self

        def select(self, timeout):
            import time

            if timeout is None:
                raise RuntimeError("the program waits for what will never come")
            time.sleep(max(timeout, 0))
            return ()

        def _process_events(self, events):
            pass

        def _write_to_self(self):
            pass

    asyncio.events.new_event_loop = asyncio.new_event_loop = Loop
