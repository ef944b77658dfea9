"""What pyproject.toml cannot say: the hot loops that are compiled where there is a compiler, and Python where there is
none (see src/penstock/compiled.py). A build that fails is told and goes on without them.
"""

from setuptools import Extension, setup

LOOPS = (
    "store/_filling",
    "store/_spans",
    "store/_syncing",
    "gateway/rocketmq/_backlog",
    "spark/_columns",
    "wire/rocketmq/_pulls",
    "wire/rocketmq/_records",
    "wire/rocketmq/_runs",
    "wire/rocketmq/_sends",
)

setup(
    ext_modules=[
        Extension(
            f"penstock.{loop.replace('/', '.')}",
            sources=[f"src/penstock/{loop}.c"],
            depends=[
                "src/penstock/gateway/rocketmq/seats.h",
                "src/penstock/slots.h",
                "src/penstock/stores.h",
                "src/penstock/store/rows.h",
                "src/penstock/wire/rocketmq/headers.h",
                "src/penstock/wire/rocketmq/pulls.h",
                "src/penstock/wire/rocketmq/tags.h",
            ],
            extra_compile_args=["-O2", "-fwrapv"],  # numbers that lie wrap, as numpy's do
            optional=True,
        )
        for loop in LOOPS
    ]
)
