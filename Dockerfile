# One image for every service: the command names the service.
FROM node:24-bookworm-slim AS build
WORKDIR /app
ENV NODE_ENV=production
COPY package.json package-lock.json .npmrc ./
COPY packages packages
COPY console console
COPY scripts/build.js scripts/build.js
# What builds the packages and the console is not needed after it. The runtime is that of the image.
RUN npm ci --include=dev && node scripts/build.js && npm prune --omit=dev && npm cache clean --force && rm -rf node_modules/node-linux-* node_modules/node-bin-*

FROM node:24-bookworm-slim
WORKDIR /app
ENV NODE_ENV=production
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/packages packages
COPY --from=build /app/console/package.json console/package.json
COPY --from=build /app/console/dist console/dist
COPY package.json LICENSE ./
COPY bin bin
COPY cli cli
COPY engines engines
COPY lib lib
COPY operations operations
COPY runtime runtime
COPY schemas schemas
COPY services services
COPY topics topics
COPY deploy/images/healthcheck.js deploy/images/healthcheck.js
# A volume that is mounted at one of these folders gets the folder's owner. Nothing else is written to, but for /tmp.
RUN install --directory --owner=node --group=node --mode=0700 /data /data/agents /var/cache/flotilla
ENV FLOTILLA_HOME=/data HOST=0.0.0.0 OPS_PORT=9464 NODE_COMPILE_CACHE=/var/cache/flotilla
USER node
# Fills the cache with the compiled code: without it most of a start is taking the types out of every file.
RUN node cli/main.ts --version
HEALTHCHECK --interval=10s --timeout=5s --start-period=5m --start-interval=2s CMD ["node", "deploy/images/healthcheck.js"]
ENTRYPOINT ["node", "bin/flotilla.js"]
CMD ["start"]
