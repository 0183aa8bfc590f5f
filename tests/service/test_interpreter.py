"""The interpreter after `settle_interpreter`, in a process of its own: it is a setting of the whole process."""

import subprocess
import sys

SCRIPT = """
import gc, sys
from service.interpreter import settle_interpreter

class Node: ...

kept = [Node() for _ in range(1000)]
settle_interpreter()
assert gc.get_freeze_count() > 1000
assert not any(isinstance(found, Node) for found in gc.get_objects())
assert gc.isenabled()
assert sys.getswitchinterval() < 0.001

left = Node()
left.itself = left
del left
assert gc.collect() >= 1
"""


def test_what_is_there_is_never_visited_again_and_what_comes_is() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True, timeout=60)
