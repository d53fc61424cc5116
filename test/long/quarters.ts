/**
 * The second tier: suites over the whole platform that guard what rarely breaks. A run of CI takes the quarter that its commit
 * names, and those whose files were changed lately; `npm run test:long` takes all.
 */

import { execFileSync } from 'node:child_process'
import { join } from 'node:path'

/** About equally long. A file that is in none of them fails test/unit/scripts/quarters.test.ts. */
export const quarters: readonly (readonly string[])[] = [
  [
    'rolling-upgrade-1d37966-forward.test.ts',
    'consumer-memory.test.ts',
    'log-records-embedded.test.ts',
    'chart.test.ts',
  ],
  [
    'rolling-upgrade-1d37966-back.test.ts',
    'api-clients-python.test.ts',
    'courier-kill.test.ts',
    'containers.test.ts',
  ],
  [
    'rolling-upgrade-6a6b61e-forward.test.ts',
    'console-pictures.test.ts',
    'event-log-embedded.test.ts',
    'vectors-kills.test.ts',
  ],
  [
    'rolling-upgrade-6a6b61e-back.test.ts',
    'api-clients-typescript.test.ts',
    'platform-kills.test.ts',
    'python-adapters.test.ts',
    'runs-dispatchers.test.ts',
  ],
]

/** Suites that check files without running the platform, with what they read. */
export const staticSuites: Readonly<Record<string, readonly string[]>> = {
  'chart.test.ts': ['deploy/charts', 'test/long/chart.test.ts'],
  'containers.test.ts': [
    'Dockerfile',
    'docker-compose.yml',
    'deploy/compose',
    'deploy/images',
    'deploy/monitoring',
    'docs/reverse-proxy.md',
    'test/long/containers.test.ts',
  ],
}

/**
 * Suites of the other folders that take long: a run of CI takes every fourth of them, beginning with the one of its quarter. Those that
 * need no server are not in `npm test`, but in `npm run test:long`.
 */
export const heavy: readonly string[] = [
  'test/flow/mirror-sleep.test.ts',
  'test/flow/rebuild-embeddings.test.ts',
  'test/flow/runs-gateway-nodes.test.ts',
  'test/flow/relational-writer.test.ts',
  'test/flow/upgrade.test.ts',
  'test/flow/runs-chat.test.ts',
  'test/flow/payload-expiry.test.ts',
  'test/flow/later-answers.test.ts',
  'test/flow/main-api-tail.test.ts',
  'test/flow/paths.test.ts',
  'test/flow/demo.test.ts',
  'test/flow/gateway-texts.test.ts',
  'test/unit/engines/relational/pglite.test.ts',
  'test/flow/runs-gateway-many.test.ts',
  'test/contract/vectors.exact.test.ts',
  'test/flow/runs-stop.test.ts',
  'test/flow/tour.test.ts',
  'test/flow/rebuild.test.ts',
  'test/contract/vectors.qdrant-described.test.ts',
  'test/flow/runs-gateway-leavers.test.ts',
  'test/flow/gateway-engines-away.test.ts',
  'test/flow/reference-node.test.ts',
  'test/flow/consumer-lane-memory.test.ts',
  'test/flow/local-search.test.ts',
  'test/servers/upgrade.test.ts',
  'test/servers/upgrade-later.test.ts',
  'test/servers/hub.test.ts',
  'test/servers/log-records.test.ts',
  'test/servers/backup-distributed.test.ts',
  'test/servers/mirror-sleep.test.ts',
  'test/servers/package.test.ts',
  'test/servers/payload-expiry.test.ts',
  'test/servers/rebuild.test.ts',
  'test/servers/runs-adk-distributed.test.ts',
  'test/servers/main-api-firebase-away.test.ts',
  'test/servers/main-api-firebase-people.test.ts',
  'test/servers/main-api-firebase.test.ts',
  'test/servers/secured.test.ts',
  'test/servers/secured-client-certificates.test.ts',
  'test/servers/sinks-page.test.ts',
  'test/servers/topic-readers.test.ts',
  'test/servers/first-steps-operator.test.ts',
  'test/servers/python-client-restart.test.ts',
  'test/servers/library-examples.test.ts',
  'test/servers/embeddings-page.test.ts',
  'test/servers/search-pg.test.ts',
  'test/servers/courier-members.test.ts',
  'test/servers/main-api-postgres-away.test.ts',
  'test/servers/tracing.test.ts',
  'test/servers/first-steps-pages.test.ts',
  'test/servers/library.test.ts',
  'test/servers/distributed.test.ts',
  'test/servers/runs-adk.test.ts',
  'test/servers/runs-adk-embedded.test.ts',
  'test/servers/topic-stream.test.ts',
  'test/servers/api-descriptions.test.ts',
  'test/servers/collections.test.ts',
  'test/servers/topics.test.ts',
  'test/servers/main-api-instances.test.ts',
  'test/servers/asyncapi.test.ts',
  'test/servers/openai-python.test.ts',
  'test/servers/runs-openai.test.ts',
  'test/servers/client-openapi.test.ts',
  'test/servers/client-runtimes.test.ts',
  'test/faults/backup.test.ts',
  'test/faults/collections-kill.test.ts',
  'test/faults/consumer-memory.test.ts',
  'test/faults/embeddings-kill.test.ts',
  'test/faults/engines-away.test.ts',
  'test/faults/event-log-embedded.test.ts',
  'test/faults/fleet-faults.test.ts',
  'test/faults/full-disk-answers.test.ts',
  'test/faults/hung-engine.test.ts',
  'test/faults/index-groups.test.ts',
  'test/faults/kafka-away.test.ts',
  'test/faults/kafka-late-writes.test.ts',
  'test/faults/kafka-leaders.test.ts',
  'test/faults/kafka-members.test.ts',
  'test/faults/kafka-reading.test.ts',
  'test/faults/leaders.test.ts',
  'test/faults/mirror-kill.test.ts',
  'test/faults/outbox-kills.test.ts',
  'test/faults/paused-publishers.test.ts',
  'test/faults/runs-questions.test.ts',
  'test/faults/search-pg-postgres-kill.test.ts',
  'test/faults/tour-kill.test.ts',
  'test/faults/vector-writer-paused.test.ts',
  'test/faults/whole-log.test.ts',
]

/** Those that need no server. */
export const heavyFirst = heavy.filter((file) => /^test\/(unit|contract|flow)\//.test(file))

/**
 * Heavy suites that a run leaves out: in CI those of other quarters, otherwise those of `npm test`. `args` are the run's own: a suite
 * that they name is never left out.
 */
export function leftOut(quarter: number | undefined, args: readonly string[]): string[] {
  const left = quarter === undefined ? heavyFirst : heavy.filter((_, n) => n % quarters.length !== quarter)
  return left.filter((file) => !args.some((arg) => arg.startsWith('test/') && file.startsWith(arg)))
}

/** Suites that take minutes and are in no quarter: only `npm run test:long` runs them. */
export const wholeOnly = ['fleet-faults.test.ts', 'image.test.ts', 'release.test.ts', 'whole-log.test.ts']

/** Paths of the suites of a quarter (0 to 3). */
export function suitesOf(quarter: number, isChanged = changedLately): string[] {
  const files = quarters[quarter]
  if (files === undefined) throw new Error(`there is no quarter ${quarter}: 0 to 3`)
  const changed = Object.keys(staticSuites).filter((file) => isChanged(staticSuites[file]!))
  return [...new Set([...files, ...changed])].map((file) => `test/long/${file}`)
}

/** Within a day: longer than a change takes from its commit to its run of CI. */
function changedLately(paths: readonly string[]): boolean {
  const args = ['log', '-1', '--format=%h', '--since=1.day', '--', ...paths]
  return (
    execFileSync('git', args, { encoding: 'utf8', cwd: join(import.meta.dirname, '../..') }).trim() !== ''
  )
}
