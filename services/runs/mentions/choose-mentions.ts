/** Which of the agents that a message names join its conversation, and why the others do not. */

import type { NodeSet, RunNode } from '../nodes/types.ts'
import type { SkipReason } from '../state/types.ts'
import { findMentions, type Mention } from './find-mentions.ts'

/** All for one root message: what a user or a program wrote. */
const mentionLimits = {
  /** The root run has depth 0. */
  depthMax: 3,
  /** Agents that one message may bring in. */
  fanOutMax: 4,
  /** Runs, the root run among them. */
  runsMax: 12,
  /** Runs that one agent may start at one other. */
  pairMax: 2,
} as const

export interface MentionsAsked {
  text: string
  /** The codename of who wrote it; without meaning for a user's message. */
  speaker: string
  /** The codename of the agent that a user's message was sent to. */
  addressee?: string
  /** True: a user or a program wrote it, not an agent. */
  isUser: boolean
  /** The codename of the agent whose mention started the speaker's run. */
  caller?: string
  /** Depth of the run that the message belongs to. */
  depth: number
  nodes: NodeSet
  tally: MentionTally
  /** Codenames that earlier messages of the same run brought in: their bare names are talk about them. */
  alreadyNamed?: ReadonlySet<string>
}

/** What the root message has started so far. */
export interface MentionTally {
  /** Runs of the tree, the root run among them. */
  runs: number
  /** By `pairKey`. */
  pairs: Readonly<Record<string, number>>
}

interface ChosenMentions {
  join: RunNode[]
  skipped: { agent: string; reason: SkipReason }[]
}

/** Names that nobody has, reported of one message. */
const unknownMax = 8

export function chooseMentions(asked: MentionsAsked): ChosenMentions {
  const names = asked.nodes.nodes.map(({ codename }) => codename)
  const chosen: ChosenMentions = { join: [], skipped: [] }
  const seen = new Set<string>()
  let unknown = 0
  for (const mention of findMentions(asked.text, names)) {
    const node = asked.nodes.byCodename(mention.name)
    const name = node?.codename ?? mention.name
    if (seen.has(name) || (node && isTalk(asked, mention))) continue
    seen.add(name)
    if (!node) {
      if (unknown++ < unknownMax) chosen.skipped.push({ agent: name, reason: 'unknown' })
      continue
    }
    const reason = limitMet(asked, name, chosen.join.length)
    if (reason) chosen.skipped.push({ agent: name, reason })
    else chosen.join.push(node)
  }
  return chosen
}

export function pairKey(speaker: string, named: string): string {
  return `${speaker}>${named}`
}

/** Whether a name calls nobody here. */
function isTalk(
  { speaker, addressee, isUser, caller, alreadyNamed }: MentionsAsked,
  mention: Mention,
): boolean {
  const { name, at } = mention
  if (isUser) return name === addressee
  if (name === speaker) return true
  return !at && (name === caller || alreadyNamed?.has(name) === true)
}

function limitMet(asked: MentionsAsked, name: string, joined: number): SkipReason | null {
  const { speaker, isUser, depth, tally } = asked
  if (depth >= mentionLimits.depthMax) return 'depth'
  const ofPair = isUser ? 0 : (tally.pairs[pairKey(speaker, name)] ?? 0)
  if (ofPair >= mentionLimits.pairMax) return 'pair'
  if (joined >= mentionLimits.fanOutMax) return 'fan_out'
  return tally.runs + joined >= mentionLimits.runsMax ? 'budget' : null
}
