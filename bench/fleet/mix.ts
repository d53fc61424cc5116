/** The fleet of the bench `fleet`: how many agents, their requests, and how often they send them. */

/** How many of a hundred requests are of each kind. */
export const mix = {
  /** The ten nearest of 5,000 points. */
  search: 50,
  /** Five points, of the 25 that each agent has: the collection does not grow. */
  upsert: 30,
  note: 6,
  goal: 2,
  /** An agent that says two things 20 ms apart; half of the callers read its events as they come. */
  run: 5,
  /** An event for the webhook targets; ends of runs are events, too. */
  fire: 3,
  /** One point by its id. */
  get: 3,
  /** The state of the whole platform. */
  state: 1,
} as const

export type Kind = keyof typeof mix
export const kinds = Object.keys(mix) as Kind[]

/** The agent of the nodes file that runs are sent to, and what it says at the end. */
export const workerName = 'worker'
export const lastWords = 'That is all of it.'

/** The webhook targets. Two get every event, one the events of failed tasks. */
export const targetNames = ['ledger', 'dashboard', 'alerts'] as const

export const agentCount = 200
/** Points of an agent are written in groups of five, one request at a time for each group. */
export const groupsPerAgent = 5
export const pointsPerGroup = 5
export const collection = 'knowledgebase'

/** Requests a second: what two cores carry with room, load generator included. */
export const defaultRates = { embedded: 40, kafka: 20 } as const
export type StackName = keyof typeof defaultRates

export const defaultMinutes = 10
/** Memory at the end is compared with that after so many minutes; shorter trials take a third of their time. */
export const settledAfterMinutes = 3

export function mixText(): string {
  return kinds.map((kind) => `${mix[kind]} ${kind}`).join(', ')
}
