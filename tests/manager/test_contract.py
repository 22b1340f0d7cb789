"""The log manager keeps the contract, in every shape that matters."""

from offsetlog.manager.testing.test_contract import *  # noqa: F403
from tests.manager.harnesses import SHAPES

offset_managers = SHAPES
