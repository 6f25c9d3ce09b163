_rapid_patch_asyncio()
import asyncio

_rapid_run_async = asyncio.run
