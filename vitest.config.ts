/** Which tests there are and what each kind needs. */

import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { heavyFirst, leftOut, suitesOf } from './test/long/quarters.ts'
import { createReport } from './test/support/report.ts'

/** Two cores: three workers keep them busy, because suites wait for timers and leases a third of their time. */
const common = {
  pool: 'forks' as const,
  maxWorkers: 3,
  // They end what hangs. A machine of CI may be five times as slow as this one.
  testTimeout: 120_000,
  hookTimeout: 300_000,
}

// As bin/flotilla.js does: threads of the platform, which run its sources as they are, start from compiled code.
process.env.NODE_COMPILE_CACHE ??= fileURLToPath(new URL('./node_modules/.cache/compiled/', import.meta.url))

/** The part of the second tier that a run of CI takes. */
const quarter = process.env.FLOTILLA_QUARTER
const exclude = leftOut(quarter === undefined ? undefined : Number(quarter), process.argv.slice(2))

const platformTemplate = './test/support/platform-template.ts'
const cheapPasswords = './test/support/cheap-passwords.ts'
const contractsOnServers =
  'test/contract/*.{kafka,kafka-*,confluent,postgres,postgres-*,qdrant,qdrant-grpc,firebase}.test.ts'

const projects = [
  {
    test: {
      ...common,
      name: 'unit',
      include: ['test/guide/*.test.ts', 'test/unit/**/*.test.ts', 'packages/*/test/**/*.test.ts'],
      exclude,
      // Files of one worker share what they import: a fifth of the time.
      isolate: false,
    },
  },
  {
    test: {
      ...common,
      name: 'contract',
      include: ['test/contract/**/*.test.ts'],
      exclude: [contractsOnServers, ...exclude],
    },
  },
  {
    test: {
      ...common,
      name: 'flow',
      include: ['test/flow/**/*.test.ts'],
      exclude,
      globalSetup: [platformTemplate],
      setupFiles: [cheapPasswords],
      isolate: false,
    },
  },
]

/** Their servers start when a test file first asks for them; the first run downloads them, which takes minutes. */
const onServers = {
  ...common,
  globalSetup: ['./test/support/servers-setup.ts', platformTemplate],
  hookTimeout: 900_000,
}
/** They replace modules, or set variables of the process for Google's library: files of one worker would share both. */
const alone = [
  'test/servers/{gateway,hub-search,runs-openai,runs-sessions,tracing}.test.ts',
  'test/servers/main-api-firebase*.test.ts',
  'test/contract/identity.firebase.test.ts',
]
const slowProjects = [
  {
    test: {
      ...onServers,
      name: 'servers',
      include: ['test/servers/**/*.test.ts', contractsOnServers],
      exclude: [...alone, ...exclude],
      isolate: false,
    },
  },
  { test: { ...onServers, name: 'servers-alone', include: alone, exclude } },
  {
    test: {
      ...onServers,
      name: 'browser',
      include: ['test/browser/**/*.test.ts'],
      exclude,
      setupFiles: [cheapPasswords],
      isolate: false,
    },
  },
  {
    test: {
      ...onServers,
      name: 'faults',
      // They wait for leases and sessions half of their time. Vitest runs projects with other workers after each other.
      maxWorkers: 4,
      sequence: { groupOrder: 1 },
      include: ['test/faults/**/*.test.ts'],
      exclude,
    },
  },
]

/** `npm run test:long`: the second tier, property tests with twenty times as many cases, and many seeds of the whole platform. */
const longProject = {
  test: {
    ...onServers,
    name: 'long',
    include: [
      'test/unit/**/*.test.ts',
      'packages/*/test/**/*.test.ts',
      'test/flow/consumer-anything.test.ts',
      'test/long/**/*.test.ts',
      ...heavyFirst,
    ],
    env: { FLOTILLA_RUNS_FACTOR: '20' },
    testTimeout: 3_600_000,
  },
}

const quarterProject = {
  test: { ...onServers, name: 'quarter', include: quarter === undefined ? [] : suitesOf(Number(quarter)) },
}

/** A plain `vitest run` needs nothing but Node and a few minutes: the other projects take part only when they are named. */
const named = process.argv.some((argument) =>
  /^(--project=)?(servers.*|browser|faults|quarter|long)$/.test(argument),
)

/** More than a minute, most of it waiting: at the end of a run each would wait alone. Vitest begins with the largest files. */
const longest = [
  'fleet-faults',
  'kafka-late-writes',
  'log-records-embedded',
  'engines-away',
  'kafka-reading',
  'leaders',
  'servers/hub',
  'servers/upgrade',
  'servers/log-records',
  'event-log.kafka',
  'rolling-upgrade',
  'platform-kills',
]

/** Files of one project after the other: a worker keeps what it imported only while the next file is of the same one. */
class ByProject extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isLong = ({ moduleId }: TestSpecification) =>
      longest.some((name) => moduleId.includes(`${name}.`) || moduleId.includes(`/${name}-`))
    const bySize = await super.sort(files)
    const sorted = [...bySize.filter(isLong), ...bySize.filter((file) => !isLong(file))]
    return [...Map.groupBy(sorted, (file) => file.project.name).values()].flat()
  }
}

export default defineConfig({
  test: {
    ...common,
    sequence: { sequencer: ByProject },
    projects: named ? [...projects, ...slowProjects, quarterProject, longProject] : projects,
    reporters: ['default', createReport(import.meta.dirname, process.env.FLOTILLA_REPORT)],
  },
})
