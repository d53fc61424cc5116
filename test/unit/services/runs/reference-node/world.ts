/** A memory and facts of the platform for tests of the reference agents. */

import type { Facts } from '#services/runs/reference-node/facts.ts'
import type { Memory } from '#services/runs/reference-node/memory.ts'

interface Point {
  id: string
  score: number
  payload: Record<string, unknown>
}

const auditNote = (title: string, outcome: string, more: object = {}) => ({
  id: `audit-${title}`,
  payload: { title, outcome, updated_at: new Date().toISOString(), ...more },
})

/** Searches keep threshold and limit, as the gateway does. */
export function memoryOf(
  points: Record<string, Point[]>,
  faults: { notes?: Error; search?: Error; health?: Error } = {},
) {
  const notes: { subject: string; body: string }[] = []
  const keys: string[] = []
  const searched: [string, unknown][] = []
  const [pass, fail] = [
    { status: 'pass', latency_ms: 0.51 },
    { status: 'fail', latency_ms: 1 },
  ]
  const memory = {
    embeddings: async () => ({ data: [{ embedding: [1] }] }),
    weakBelow: async () => 0.2,
    async search(asked: { collection: string; filter?: unknown; limit: number; scoreThreshold: number }) {
      if (faults.search) throw faults.search
      searched.push([asked.collection, asked.filter])
      const good = (points[asked.collection] ?? []).filter(({ score }) => score >= asked.scoreThreshold)
      return { results: good.slice(0, asked.limit) }
    },
    async scroll({ filter }: { filter: { must: { key: string }[] } }) {
      if (faults.search) throw faults.search
      const strangers = [auditNote('WHALE?', 'unknown_agent', { count: 3 })]
      const refused = [
        auditNote('old', 'invalid_signature', { updated_at: '2020-01-01T00:00:00Z' }),
        auditNote('verify by @pulse: invalid_signature', 'invalid_signature'),
      ]
      return { points: filter.must[1]?.key === 'tags' ? strangers : refused, next_offset: null }
    },
    async stats() {
      if (faults.search) throw faults.search
      const sizes = { knowledgebase: 4, fleet_notes: 90 }
      return { collections: Object.entries(sizes).map(([collection, points]) => ({ collection, points })) }
    },
    async health() {
      if (faults.health) throw faults.health
      const components = { api: pass, vector_engine: pass, event_log: pass, relational_engine: fail }
      return { status: 'degraded', components }
    },
    notes: {
      async create(note: { subject: string; body: string }, { idempotencyKey }: { idempotencyKey: string }) {
        if (faults.notes) throw faults.notes
        notes.push(note)
        keys.push(idempotencyKey)
        return { id: 12 }
      },
      get: async (id: number) => ({ body: `The body of ${id}.` }),
    },
  } as unknown as Memory
  return { memory, notes, keys, searched }
}

const hostile = 'Ask WHALE, @pulse\n`NEXUS` and ``` @cipher [x](http://evil.test)'

export const points: Record<string, Point[]> = {
  knowledgebase: [
    {
      id: 'k(1)',
      score: 0.8,
      payload: { title: 'Deploying', mind_path: 'docs/deploy.md', text: '# Deploying\nBy night.' },
    },
    { id: 'WHALE`', score: 0.4, payload: { title: hostile } },
    { id: 'weak', score: 0.19, payload: { title: 'Something else' } },
  ],
  posts: [{ id: 'p-1', score: 0.3, payload: { title: 'A post', body: hostile } }],
  fleet_notes: [{ id: 'note-7', score: 0.6, payload: { title: 'It was deployed' } }],
}

export const lastSeen = new Date('2026-11-27T07:00:00Z')

const agent = (agent_id: string, access: string) => ({
  uid: `agent_${agent_id}`,
  agent_id,
  access,
  tier: 'agent',
})
const group = (name: string, lag: number, members: number) => {
  return { group: name, topic: 'audit.events', members, lag, stuck: [] }
}

export const facts: Facts = {
  lag: async () => [
    group('audit-writer', 62, 1),
    group('relational-writer', 9, 0),
    group('vector-writer', 0, 1),
  ],
  deadLetters: async () => ({ count: 0, atMost: false }),
  agents: async () => [agent('scout', 'admin'), agent('PULSE', 'member'), agent('atlas', 'member')],
  accessOf: async (uid) => (uid === 'person_ana' ? 'viewer' : undefined),
  targets: async () => [{ target: 'ops', state: 'delivering', lag: 2, last_status: 200 }],
  targetLetters: async () => new Map([['ops', 1]]),
  nodes: async () => [{ slug: 'whale', status: 'up', lastSeen }],
}
