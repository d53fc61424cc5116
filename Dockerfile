# One image for every service: the command names the service. `docker build -t flotilla .` packs the clone and installs the
# package. With `docker build --build-context tarball=dist -t flotilla .` a folder that holds one flotilla-*.tgz replaces the
# stage `tarball`, and nothing is packed.
FROM node:24-bookworm-slim AS clone
WORKDIR /clone
# Installed before the other files are copied: a change of those does not repeat it.
COPY package.json package-lock.json .npmrc ./
COPY packages packages
COPY console console
RUN npm ci
COPY . .
RUN npm run pack

FROM scratch AS tarball
COPY --from=clone /clone/dist/ /

FROM node:24-bookworm-slim AS installed
WORKDIR /app
COPY --from=tarball /flotilla-*.tgz /tmp/
# The drivers of servers are optional peers of the package: they are installed here, in the versions that it names. The pinned
# Node (`node-…`) is not: the base image has one. Source maps and types are a third of the packages, and nothing reads them.
RUN tar -xzf /tmp/flotilla-*.tgz -C /tmp package/package.json \
  && node -p "Object.entries(require('/tmp/package/package.json').peerDependencies).filter(([name]) => !name.startsWith('node-')).map((peer) => peer.join('@')).join(' ')" > /tmp/peers \
  && xargs --arg-file=/tmp/peers npm install --omit=dev --omit=peer --ignore-scripts --no-audit --no-fund /tmp/flotilla-*.tgz \
  && find node_modules -type f \( -name '*.map' -o -name '*.d.ts' -o -name '*.d.cts' -o -name '*.d.mts' \) -delete

FROM node:24-bookworm-slim
LABEL org.opencontainers.image.title="Flotilla" \
      org.opencontainers.image.description="The platform under a fleet of AI agents" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0"
# The folder of the package: the health check and the probes of the Helm chart name files below it.
WORKDIR /app/node_modules/flotilla
COPY --from=installed /app /app
# A volume that is mounted at one of these folders gets the folder's owner. Nothing else is written to, but for /tmp.
RUN install --directory --owner=node --group=node --mode=0700 /data /data/agents /var/cache/flotilla
ENV NODE_ENV=production PATH=/app/node_modules/.bin:$PATH
ENV FLOTILLA_HOME=/data HOST=0.0.0.0 OPS_PORT=9464 NODE_COMPILE_CACHE=/var/cache/flotilla
# The user `node`, by its number: Kubernetes cannot tell from a name that a user is not root.
USER 1000:1000
# Fills the cache with the compiled code: no later process can, on a read-only file system.
RUN node cli/main.js --version
VOLUME /data
HEALTHCHECK --interval=10s --timeout=5s --start-period=5m --start-interval=2s CMD ["node", "deploy/images/healthcheck.js"]
ENTRYPOINT ["node", "bin/flotilla.js"]
CMD ["start"]
