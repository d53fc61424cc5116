/** The container setup fits the services and settings that there are. */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { embedderSettings } from '#engines/embedder/settings.ts'
import { type WantedPort, wantedPorts } from '#runtime/start/ingress.ts'
import type { Service } from '#runtime/start/service.ts'
import { secretKeyVariable } from '#services/access/secrets/secrets.ts'
import { services as all } from '#services/index.ts'
import { nodesFile } from '#services/runs/nodes/nodes.ts'
import { parseTargets } from '#services/webhooks/targets/targets-file.ts'
import { projectFolder } from '../../support/pages.ts'

/** The reference nodes run where the engines are embedded. */
const services = all.filter(({ name }) => name !== 'reference-nodes')
const read = (path: string) => readFileSync(join(projectFolder, path), 'utf8')
const compose = read('docker-compose.yml')
const dockerfile = read('Dockerfile')

test('every service of a distributed platform has a container of its own in docker-compose.yml', () => {
  for (const service of services) {
    expect(compose).toContain(`\n  ${service.name}:\n`)
    expect(compose).toContain(`command: ["start", "${service.name}"]`)
  }
})

interface Container {
  build?: string
  profiles: string[]
  depends_on?: Record<string, { condition: string }> | string[]
  entrypoint?: string[]
  command?: string[]
  network_mode?: string
  ports?: string[]
  environment?: Record<string, string>
  volumes?: string[]
  read_only?: boolean
  tmpfs?: string[]
}

const { services: containers, volumes } = parse(compose, { merge: true }) as {
  services: Record<string, Container>
  volumes: Record<string, unknown>
}

const platform = containers.platform!

test('every engine is named to the containers of services, and none to the one that embeds them', () => {
  const variables = ['KAFKA_BROKERS', 'SCHEMA_REGISTRY_URL', 'QDRANT_URL', 'QDRANT_GRPC_URL', 'DATABASE_URL']
  for (const variable of variables) {
    for (const { name } of services) expect(containers[name]!.environment).toHaveProperty(variable)
    expect(platform.environment).not.toHaveProperty(variable)
  }
})

test('embedder and secret key are named to the containers as to a process', () => {
  const variables = [...Object.keys(embedderSettings.properties), secretKeyVariable]
  for (const name of ['platform', ...services.map((service) => service.name)]) {
    for (const variable of variables)
      expect(containers[name]!.environment).toMatchObject({ [variable]: `\${${variable}:-}` })
  }
})

test('a profile starts the platform in one container, or each service in its own', () => {
  const started = (profile: string) =>
    Object.keys(containers).filter((name) => containers[name]!.profiles.includes(profile))
  expect(started('embedded')).toEqual(['platform'])
  const engines = ['kafka', 'registry', 'qdrant', 'postgres']
  const named = [...engines, 'secret-key', ...services.map(({ name }) => name)]
  expect(started('distributed').sort()).toEqual(named.sort())
})

test('a profile has all that its containers depend on; metrics comes on top of the distributed one', () => {
  for (const [name, { profiles, depends_on = {}, network_mode = '' }] of Object.entries(containers)) {
    const names = Array.isArray(depends_on) ? depends_on : Object.keys(depends_on)
    const shared = network_mode.startsWith('service:') ? [network_mode.slice('service:'.length)] : []
    for (const needed of [...names, ...shared]) {
      const among = name === 'metrics' ? ['distributed'] : profiles
      expect(containers[needed]!.profiles, `${name} needs ${needed}`).toEqual(expect.arrayContaining(among))
    }
  }
})

test('no engine starts without the key of the services, and neither a service', () => {
  const waits = (name: string): boolean => {
    const { depends_on = {} } = containers[name]!
    if (Array.isArray(depends_on)) return depends_on.some(waits)
    return Object.keys(depends_on).some((one) => one === 'secret-key' || waits(one))
  }
  for (const name of Object.keys(containers).filter((one) => !['platform', 'secret-key'].includes(one)))
    expect(waits(name), name).toBe(true)
  expect(containers.kafka!.depends_on).toEqual({
    'secret-key': { condition: 'service_completed_successfully' },
  })
  // Compose asks for such a variable whatever the profile.
  expect(compose).not.toMatch(/\$\{\w+:?\?/)
})

test('the embedded platform keeps its data in a volume, and is reached from this machine alone', () => {
  expect(platform).toMatchObject({ read_only: true, tmpfs: ['/tmp'], volumes: ['platform:/data'] })
  expect(platform.ports).toEqual(['8080', '8081', '8082', '8083'].map((port) => `127.0.0.1:${port}:${port}`))
})

test('the relay of webhooks is reached by those who share its network namespace, and by nobody else', () => {
  const relay = containers['webhook-relay']!
  const metrics = containers.metrics!
  expect(relay.environment?.WEBHOOK_GATEWAY).toBeUndefined()
  const sharing = Object.entries(containers).filter(([, one]) => one.network_mode === 'service:webhook-relay')
  expect(sharing.map(([name]) => name)).toEqual(['metrics', 'cli'])
  for (const [, one] of sharing) expect(one.ports).toBeUndefined()
  // The namespace has one port, on the host's loopback: Prometheus's, not the relay's.
  expect(relay.ports).toEqual(['127.0.0.1:9091:9091'])
  expect(metrics.command).toContain('--web.listen-address=0.0.0.0:9091')
})

test('Prometheus scrapes every service', () => {
  const config = parse(read('deploy/monitoring/prometheus.yml')) as {
    scrape_configs: { static_configs: { targets: string[] }[] }[]
  }
  const scraped = config.scrape_configs.flatMap((job) => job.static_configs.flatMap((one) => one.targets))
  expect(scraped.sort()).toEqual(services.map(metricsAddress).sort())
})

/** Where a service answers `/metrics` when it has a container of its own. */
function metricsAddress(service: Service): string {
  const env = { ...imageVariables(), ...containers[service.name]!.environment }
  const [{ host, port }] = wantedPorts([service], env) as [WantedPort]
  // The loopback alone: reached from inside its namespace.
  if (host === null) return `127.0.0.1:${port}`
  expect(host).toBe('0.0.0.0')
  return `${service.name}:${port}`
}

/** What the image sets with ENV. */
function imageVariables(): Record<string, string> {
  const lines = dockerfile.matchAll(/^ENV (.*)$/gm)
  const pairs = [...lines].flatMap(([, line]) => line!.split(' ').map((pair) => pair.split('=')))
  return Object.fromEntries(pairs)
}

test('the user of the image may write to its data folder and to every volume that is mounted', () => {
  const image = dockerfile.split('\nFROM ').at(-1)!
  const [asRoot, asUser] = image.split('USER 1000:1000\n') as [string, string]
  expect(asUser).not.toContain('USER')
  const made = /^RUN install --directory --owner=node --group=node --mode=0700 (.*)$/m
    .exec(asRoot)![1]!
    .split(' ')
  const mounted = Object.values(containers).flatMap(({ build, volumes: mounts = [] }) => {
    const named = mounts.map((mount) => mount.split(':')).filter(([source]) => source! in volumes)
    return build === undefined ? [] : named.map(([, folder]) => folder!)
  })
  expect([...new Set(mounted)].sort()).toEqual(['/data', '/data/agents'])
  const { FLOTILLA_HOME, NODE_COMPILE_CACHE } = imageVariables()
  expect(made).toEqual(expect.arrayContaining([...mounted, FLOTILLA_HOME, NODE_COMPILE_CACHE]))
})

test('no two containers that stay share a data directory, which has one owner', () => {
  const { FLOTILLA_HOME } = imageVariables()
  for (const { name } of services) {
    const { read_only, tmpfs = [], volumes: mounts = [] } = containers[name]!
    const places = [...tmpfs, ...mounts.map((mount) => mount.split(':').slice(1).join(':'))]
    expect(read_only).toBe(true)
    expect(places.filter((place) => place.split(':')[0] === FLOTILLA_HOME)).toHaveLength(1)
  }
  const keeping = services.filter(({ name }) =>
    containers[name]!.volumes?.some((mount) => mount.startsWith('home:')),
  )
  expect(keeping.map(({ name }) => name)).toEqual(['main-api'])
})

test('every volume that is mounted is declared, and none is left over', () => {
  const named = Object.values(containers).flatMap(({ volumes: mounts = [] }) =>
    mounts.map((mount) => mount.split(':')[0]!).filter((source) => !source.startsWith('.')),
  )
  expect([...new Set(named)].sort()).toEqual(Object.keys(volumes).sort())
})

test('relay, courier and command line read one targets file, which is sound as it is shipped', () => {
  for (const name of ['webhook-relay', 'webhook-courier', 'cli']) {
    const { environment, volumes } = containers[name]!
    expect(environment).toMatchObject({ WEBHOOK_TARGETS_FILE: '/etc/flotilla/targets.yaml' })
    expect(environment).toHaveProperty('KAFKA_BROKERS')
    expect(volumes).toContain('./deploy/compose/webhooks:/etc/flotilla:ro')
  }
  expect(parseTargets(read('deploy/compose/webhooks/targets.yaml'), {}, 'targets.yaml').targets.size).toBe(0)
})

test('main API, gateway, dispatcher and command line of runs read one nodes file, which names the six agents as it is shipped', () => {
  for (const name of ['main-api', 'run-gateway', 'run-dispatcher', 'cli']) {
    const { environment, volumes } = containers[name]!
    expect(environment).toMatchObject({ RUN_NODES_FILE: '/etc/flotilla-nodes/nodes.yaml' })
    expect(volumes).toContain('./deploy/compose/nodes:/etc/flotilla-nodes:ro')
  }
  const { nodes } = nodesFile.parse(read('deploy/compose/nodes/nodes.yaml'), {}, 'nodes.yaml')
  expect(nodes.map(({ codename }) => codename)).toEqual([
    'WHALE',
    'PULSE',
    'CIPHER',
    'ATLAS',
    'NEXUS',
    'AXON',
  ])
})

test('the labels of the image have the version and the licence of the project', () => {
  const { version, license } = JSON.parse(read('package.json')) as Record<string, string>
  const labels = Object.fromEntries(
    [...dockerfile.matchAll(/org\.opencontainers\.image\.(\w+)="(.*)"/g)].map(([, name, text]) => [
      name,
      text,
    ]),
  )
  expect(labels).toMatchObject({ version, licenses: license })
})

test('what starts the platform in containers and by systemd is the command that sets its memory', () => {
  expect(dockerfile).toContain('\nENTRYPOINT ["node", "bin/flotilla.js"]\n')
  for (const name of ['platform', 'cli', ...services.map((service) => service.name)])
    expect(containers[name]).not.toHaveProperty('entrypoint')
  for (const unit of ['flotilla.service', 'flotilla@.service']) {
    expect(read(`deploy/packaging/systemd/${unit}`)).toMatch(/^ExecStart=\S+ \S+\/bin\/flotilla\.js start/m)
  }
  // A container's `command` would replace the entrypoint.
  expect(read('deploy/charts/flotilla/templates/deployments.yaml')).not.toMatch(
    /^\s*command: .*(main\.ts|node)/m,
  )
})
