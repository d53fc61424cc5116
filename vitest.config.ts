/** Which tests there are and what each kind needs. */

import { defineConfig } from 'vitest/config'

/** Two cores: three workers keep them busy, because suites wait for timers and leases a third of their time. */
const common = {
  pool: 'forks' as const,
  maxWorkers: 3,
  // These only end a hang: a busy machine is five times slower than a quiet one.
  testTimeout: 120_000,
  hookTimeout: 180_000,
  // Machines of CI stall. `.ci/run` prints each test that needed its second try and fails when more than three did.
  retry: process.env.CI === undefined ? 0 : 1,
}

const contractsOnServers =
  'test/contract/*.{kafka,kafka-*,confluent,postgres,postgres-*,qdrant,firebase}.test.ts'

const projects = [
  {
    test: {
      ...common,
      name: 'unit',
      include: ['test/unit/**/*.test.ts', 'packages/*/test/**/*.test.ts'],
      // Files of one worker share what they import: a fifth of the time.
      isolate: false,
    },
  },
  {
    test: {
      ...common,
      name: 'contract',
      include: ['test/contract/**/*.test.ts'],
      exclude: [contractsOnServers],
    },
  },
  { test: { ...common, name: 'flow', include: ['test/flow/**/*.test.ts'] } },
]

/** Their servers start when a test file first asks for them; the first run downloads them, which takes minutes. */
const onServers = {
  ...common,
  globalSetup: ['./test/support/servers-setup.ts'],
  testTimeout: 120_000,
  hookTimeout: 900_000,
}
const slowProjects = [
  { test: { ...onServers, name: 'servers', include: ['test/servers/**/*.test.ts', contractsOnServers] } },
  { test: { ...onServers, name: 'browser', include: ['test/browser/**/*.test.ts'] } },
  {
    test: {
      ...onServers,
      name: 'faults',
      include: ['test/faults/**/*.test.ts'],
      // Tests that kill and pause processes meet times that they must keep.
      maxWorkers: 2,
      sequence: { groupOrder: 1 },
    },
  },
]

/**
 * `npm run test:long`: property tests with twenty times as many cases, and the whole platform on servers with many seeds.
 * They take an hour.
 */
const longProject = {
  test: {
    ...onServers,
    name: 'long',
    include: [
      'test/unit/**/*.test.ts',
      'packages/*/test/**/*.test.ts',
      'test/flow/consumer-anything.test.ts',
      'test/long/**/*.test.ts',
    ],
    env: { FLOTILLA_RUNS_FACTOR: '20' },
    testTimeout: 3_600_000,
  },
}

/** A plain `vitest run` needs nothing but Node and a few minutes: the other projects take part only when they are named. */
const named = process.argv.some((argument) => /^(--project=)?(servers|browser|faults|long)$/.test(argument))

export default defineConfig({
  test: { ...common, projects: named ? [...projects, ...slowProjects, longProject] : projects },
})
