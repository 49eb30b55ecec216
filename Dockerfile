# syntax=docker/dockerfile:1
# The daemon as a container: doc/install.rst. EXTRAS names what the configuration needs, as
# `nodemanager check-config` tells it.

FROM python:3.13-slim-bookworm AS build
ARG EXTRAS="ec2 uvloop"
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /source
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# Before the source, so that a change of it does not install these again.
COPY setup.py constraints.txt ./
COPY etc/install/pins.py etc/install/
RUN python -m venv --without-pip /opt/nodemanager \
 && read -r -a extras <<<"${EXTRAS}" \
 && python etc/install/pins.py build >/tmp/build.txt \
 && python etc/install/pins.py "${extras[@]}" >/tmp/pins.txt \
 && python -m pip install --require-hashes -r /tmp/build.txt \
 && python -m pip --python /opt/nodemanager/bin/python install --require-hashes -r /tmp/pins.txt \
 && rm -rf /opt/nodemanager/lib/python3*/site-packages/libcloud/test
COPY . .
RUN python -m pip wheel --no-deps --no-build-isolation --wheel-dir /tmp/wheel . \
 && python -m pip --python /opt/nodemanager/bin/python install --no-deps --no-index /tmp/wheel/*.whl

FROM python:3.13-slim-bookworm
RUN groupadd --system --gid 10001 nodemanager \
 && useradd --system --uid 10001 --gid nodemanager --no-create-home \
        --home-dir /var/lib/nodemanager --shell /usr/sbin/nologin nodemanager \
 && install -d -o nodemanager -g nodemanager -m 0700 /var/lib/nodemanager \
 && install -d -o nodemanager -g nodemanager -m 0750 /run/nodemanager
COPY --from=build /opt/nodemanager /opt/nodemanager
ENV PATH=/opt/nodemanager/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    STATE_DIRECTORY=/var/lib/nodemanager \
    RUNTIME_DIRECTORY=/run/nodemanager \
    NODEMANAGER_CONFIG=/etc/nodemanager/pool.cfg \
    NODEMANAGER_HEALTH=http://127.0.0.1:8999/healthz
USER 10001:10001
WORKDIR /var/lib/nodemanager
VOLUME ["/var/lib/nodemanager"]
# The management port, and the registry's, which nodes ping.
EXPOSE 8999 8990
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as u; u.urlopen(os.environ['NODEMANAGER_HEALTH'], timeout=4)"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["nodemanager"]
CMD ["run"]
