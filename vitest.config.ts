import { defineConfig } from 'vitest/config'

/** Two cores: two workers. Each project says what it needs; the servers of `engines` and `faults` are started once a run. */
const common = { pool: 'forks' as const, maxWorkers: 2, testTimeout: 30_000, hookTimeout: 60_000 }

export default defineConfig({
  test: {
    ...common,
    projects: [
      { test: { ...common, name: 'unit', include: ['test/unit/**/*.test.ts'] } },
      {
        test: {
          ...common,
          name: 'contract',
          include: ['test/contract/**/*.test.ts'],
          exclude: ['**/*.engines.test.ts'],
        },
      },
      {
        test: {
          ...common,
          name: 'flow',
          include: ['test/flow/**/*.test.ts'],
          exclude: ['**/*.engines.test.ts'],
        },
      },
    ],
  },
})
