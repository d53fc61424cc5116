# One image for every service: the command names the service.
FROM node:24-bookworm-slim
WORKDIR /app
ENV NODE_ENV=production
COPY package.json package-lock.json .npmrc ./
COPY packages packages
# What builds the packages (`prepare`) is not needed after it.
RUN npm ci --include=dev && npm prune --omit=dev && npm cache clean --force
COPY . .
RUN mkdir -p /data && chown node:node /data
ENV FLOTILLA_HOME=/data HOST=0.0.0.0 OPS_PORT=9464
USER node
ENTRYPOINT ["node", "cli/main.ts"]
CMD ["start"]
