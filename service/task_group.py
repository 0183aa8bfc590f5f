"""asyncio's TaskGroup, which leaves nothing for the garbage collector.

In Python 3.11 an error that leaves a group refers to the group's own frame, which refers to the error; and the group
refers to its task, which refers to the error it was cancelled with. All that a call ever held would then wait for a
collection, and every other call for that.
"""

import asyncio
from types import TracebackType


class TaskGroup(asyncio.TaskGroup):
    """What leaves the group is raised without the frames inside it; errors of its tasks keep theirs."""

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wait for the tasks, as ever."""
        try:
            await super().__aexit__(kind, error, trace)
        except BaseException as raised:
            raised.__traceback__ = None
            raise
        finally:
            self._parent_task = error = trace = None
