# One image for every service: the command names the service.
FROM node:24-bookworm-slim
WORKDIR /app
ENV NODE_ENV=production
COPY package.json package-lock.json .npmrc ./
COPY packages packages
COPY console console
# What builds the packages and the console (`prepare`) is not needed after it.
RUN npm ci --include=dev && npm prune --omit=dev && npm cache clean --force
COPY . .
# A volume that is mounted at one of these folders gets the folder's owner.
RUN install --directory --owner=node --group=node --mode=0700 /data /data/agents /var/cache/flotilla
ENV FLOTILLA_HOME=/data HOST=0.0.0.0 OPS_PORT=9464 NODE_COMPILE_CACHE=/var/cache/flotilla
USER node
# Fills the cache with the compiled code: without it most of a start is taking the types out of every file.
RUN node cli/main.ts --version
ENTRYPOINT ["node", "cli/main.ts"]
CMD ["start"]
