/** The content of `flotilla demo`, which is demo-fleet.yaml, and what marks its agents and points. */

import { readFileSync } from 'node:fs'
import { parse } from 'yaml'
import type { FiredEvent, GoalStatus, JsonValue, NoteStatus, Priority, WebhookEvent } from '#client/client.ts'
import type { CollectionName } from '#engines/vectors/collections.ts'
import type { ExampleAgent } from './example-agents.ts'

interface Reply {
  by: string
  body: string
}

export interface DemoFleet {
  agents: ExampleAgent[]
  documents: { collection: CollectionName; by: string; title: string; text: string }[]
  /** `by` of a reply may be `operator`. */
  threads: (Reply & { subject: string; priority?: Priority; status?: NoteStatus; replies?: Reply[] })[]
  goals: { by: string; title: string; description: string; priority: Priority; status: GoalStatus }[]
  runs: { by: string; to: string; text: string }[]
  dispatches: { by: string; text: string }[]
  /** `answer`: the HTTP status that its receiver gives. */
  targets: { name: string; answer: number; events: WebhookEvent['event'][] }[]
  events: (Pick<FiredEvent, 'agent' | 'task_id' | 'event'> & { result: { [key: string]: JsonValue } })[]
}

/** Roles of its agents begin so, and points have the tag. */
export const demoRole = 'demo: '
export const demoTag = 'demo'

export function readFleet(): DemoFleet {
  return parse(readFileSync(new URL('./demo-fleet.yaml', import.meta.url), 'utf8')) as DemoFleet
}
