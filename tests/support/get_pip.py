"""Stands in for the script with which ansible-test puts pip into its virtual environments.

ansible-test would download one; a machine that reaches only a package index cannot. This copy is placed where
ansible-test keeps its download, next to a link to the control environment's pip, which therefore is what `pip` means
here. Arguments: pip's options, the packages to install, and two options of the original that pip does not know.
"""

from __future__ import annotations

import runpy
import sys

sys.argv[1:] = ["install", *(option for option in sys.argv[1:] if option not in ("--no-setuptools", "--no-wheel"))]
runpy.run_module("pip", run_name="__main__", alter_sys=True)
