/**
 * Looks at the rows of everything that answers wait for, all together and once a second: what the log did not bring, or
 * brings late, is found so.
 */

import type { Logger } from 'pino'
import type { Relational } from '#engines/relational/port.ts'
import { describeError } from '#lib/errors.ts'
import type { Closeable } from '#lib/resource.ts'
import { type Look, lookAtDispatches, lookAtRuns, lookAtTrees } from '../state/looks.ts'

export type LookKey = { tree: string } | { run: string } | { dispatch: number }

export interface Looks extends Closeable {
  /** Calls `listener` about once a second until the result is called. */
  watch(key: LookKey, listener: (look: Look) => void): () => void
}

const everyMs = 1_000

interface Watch {
  key: LookKey
  listener: (look: Look) => void
}

export function createLooks({
  relational,
  log,
}: {
  relational: Pick<Relational, 'query'>
  log: Logger
}): Looks {
  const watches = new Set<Watch>()
  let timer: NodeJS.Timeout | undefined
  let looking: Promise<void> | undefined
  let failing = false

  async function lookAll(): Promise<void> {
    const asked = [...watches]
    const keys = <K>(of: (key: LookKey) => K | undefined) => [
      ...new Set(asked.flatMap(({ key }) => of(key) ?? [])),
    ]
    const trees = await lookAtTrees(
      relational,
      keys((key) => ('tree' in key ? key.tree : undefined)),
    )
    const runs = await lookAtRuns(
      relational,
      keys((key) => ('run' in key ? key.run : undefined)),
    )
    const goals = keys((key) => ('dispatch' in key ? key.dispatch : undefined))
    const dispatches = await lookAtDispatches(relational, goals)
    for (const watch of asked) {
      const { key, listener } = watch
      const found =
        'tree' in key ? trees.get(key.tree) : 'run' in key ? runs.get(key.run) : dispatches.get(key.dispatch)
      if (found && watches.has(watch)) listener(found)
    }
    failing = false
  }
  function tick(): void {
    looking ??= lookAll()
      .catch((error: unknown) => {
        if (!failing) log.warn({ reason: describeError(error) }, 'runs.look-failing')
        failing = true
      })
      .finally(() => {
        looking = undefined
      })
  }
  /** Nothing runs while nobody waits. */
  function keepTicking(): void {
    if (watches.size === 0) {
      clearInterval(timer)
      timer = undefined
    } else timer ??= setInterval(tick, everyMs)
  }

  return {
    watch(key, listener) {
      const watch = { key, listener }
      watches.add(watch)
      keepTicking()
      return () => {
        watches.delete(watch)
        keepTicking()
      }
    },
    async close() {
      watches.clear()
      keepTicking()
      await looking
    },
  }
}
