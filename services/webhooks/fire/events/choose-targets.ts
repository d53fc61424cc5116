/** Chooses the targets of an event: by their own lists and by the names that the caller gave. */

import { AppError } from '#lib/errors.ts'
import type { WebhookTarget, WebhookTargets } from '../../targets/target.ts'

const namesShownMax = 20
const nameShownMax = 64

/**
 * Those whose `events` and `agents` lists match; of these only the named ones, when names are given. Throws AppError
 * `unknown_target` that lists the names which no target has; `bad_request` for a name that is empty.
 */
export function chooseTargets(
  { targets }: Pick<WebhookTargets, 'targets'>,
  event: { event: string; agent: string },
  named: readonly string[] | null,
): WebhookTarget[] {
  if (named) refuseUnknown(targets, named)
  const wanted = named && new Set(named)
  return [...targets.values()].filter(
    ({ name, events, agents }) =>
      (wanted === null || wanted.has(name)) &&
      (events === null || events.includes(event.event)) &&
      (agents === null || agents.includes(event.agent)),
  )
}

/** The names of `?targets=a,b&targets=c`; null when the caller named none at all. */
export function namesOf(query: string | string[] | undefined): string[] | null {
  if (query === undefined) return null
  const names = (Array.isArray(query) ? query : [query]).flatMap((text) => text.split(','))
  return [...new Set(names.map((name) => name.trim()))]
}

function refuseUnknown(targets: ReadonlyMap<string, WebhookTarget>, named: readonly string[]): void {
  if (named.includes('')) {
    throw new AppError(
      'bad_request',
      'targets holds an empty name: name targets, or leave it out to reach every target that wants the event.',
    )
  }
  const unknown = named.filter((name) => !targets.has(name))
  if (unknown.length === 0) return
  const shown = unknown.slice(0, namesShownMax).map((name) => printable(name.slice(0, nameShownMax)))
  throw new AppError('unknown_target', `Nothing was sent. There is no target named ${shown.join(', ')}.`, {
    errors: shown.map((name) => ({
      path: 'targets',
      message: `${name} is not a target of the targets file`,
    })),
  })
}

function printable(name: string): string {
  return name.replace(/[^\x20-\x7e]/g, '?')
}
