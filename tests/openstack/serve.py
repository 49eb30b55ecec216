"""Serves one API in OpenStack's own venv: `python -P serve.py MODULE PORT [OPTION...]`."""

from __future__ import annotations

import importlib
import sys


def main() -> None:
    module, port, *options = sys.argv[1:]
    # The applications read options of their own from here.
    sys.argv = [module, *options]
    application = importlib.import_module(module).application
    waitress = importlib.import_module("waitress")
    waitress.serve(application, listen=f"127.0.0.1:{port}", threads=8)


if __name__ == "__main__":
    main()
