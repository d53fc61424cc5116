/** Collections: listed, shown, made and deleted. */

import { Type } from 'typebox'
import type { SqlExecutor } from '#engines/relational/port.ts'
import type { Actor } from '#services/access/admin-audit/admin-audit.ts'
import {
  createCollection,
  deleteCollection,
  findCollection,
  listCollections,
} from '#services/vectors/collections/rows.ts'
import {
  collectionDescription,
  collectionNameField,
  deletedCollection,
} from '#services/vectors/collections/shapes.ts'
import { observeCollections } from '#services/vectors/read/observed.ts'
import { type Action, defineAction, tableOf } from './action.ts'
import type { OperatedPlatform } from './operation.ts'
import { orNull, textField, time } from './shapes.ts'

const collection = Type.Object(
  {
    collection: Type.String(),
    description: orNull(Type.String()),
    created_by: Type.String({
      description:
        'The agent, the person by uid, or the user of a command line; `platform` for its own four.',
    }),
    created_at: time,
    points: Type.Integer(),
    index_bytes: Type.Integer(),
    index_status: Type.String(),
    indexed_share: Type.Number(),
  },
  { title: 'Collection' },
)

const named = textField('A collection.', 'tea', 64)
const away = ['vector_engine_unavailable', 'relational_engine_unavailable'] as const

function observed({ engines }: OperatedPlatform) {
  return observeCollections(engines.vectors, () => listCollections(engines.relational))
}

const listCollectionsAction = defineAction({
  name: 'collections list',
  summary: 'The collections, the oldest first',
  needs: ['vectors'],
  args: Type.Object({}),
  async run({ platform }) {
    return { collections: await observed(platform), as_of: new Date().toISOString() }
  },
  http: {
    role: 'viewer',
    problems: away,
    method: 'GET',
    path: '/collections',
    operationId: 'listCollections',
    tag: 'state',
    answer: Type.Object({ collections: Type.Array(collection), as_of: time }, { title: 'Collections' }),
  },
  cli: [
    {
      example: 'flotilla collections list',
      render: ({ collections }) =>
        tableOf(collections, {
          collection: ({ collection }) => collection,
          points: ({ points }) => points,
          'made by': ({ created_by }) => created_by,
          made: ({ created_at }) => created_at,
          description: ({ description }) => description,
        }),
    },
  ],
})

const showCollectionAction = defineAction({
  name: 'collections show',
  summary: 'A collection, its points and its index',
  needs: ['vectors'],
  args: Type.Object({ collection: named }),
  async run({ platform }, args) {
    const one = await findCollection(platform.engines.relational, args.collection)
    const [found] = await observeCollections(platform.engines.vectors, async () => [one])
    return found!
  },
  http: {
    role: 'viewer',
    problems: ['collection_not_found', ...away],
    method: 'GET',
    path: '/collections/:collection',
    operationId: 'getCollection',
    tag: 'state',
    answer: collection,
  },
  cli: [
    {
      positional: ['collection'],
      example: 'flotilla collections show knowledgebase',
      render: (fields) => ({ fields }),
    },
  ],
})

const createCollectionAction = defineAction({
  name: 'collections create',
  summary: 'Make a collection',
  change: { action: 'collection.create', target: ({ name }) => name },
  services: ['outbox-publisher'],
  args: Type.Object({
    name: collectionNameField,
    description: Type.Optional(collectionDescription),
  }),
  async run({ platform, actor, requestId, note }, args) {
    const { relational } = platform.engines
    const made = await createCollection(
      relational,
      {
        name: args.name,
        description: args.description ?? null,
        createdBy: await nameOf(relational, actor),
        ...(requestId === undefined ? {} : { requestId }),
      },
      (tx, { making }) => note(tx, { after: { making } }),
    )
    const { name, description, created_by, created_at } = made
    return { collection: name, description, created_by, created_at: created_at.toISOString() }
  },
  http: {
    role: 'member',
    problems: [
      'collection_exists',
      'too_many_collections',
      'relational_engine_unavailable',
      'log_unavailable',
    ],
    method: 'POST',
    path: '/collections',
    operationId: 'createCollection',
    tag: 'state',
    status: 201,
    body: {
      title: 'NewCollection',
      examples: [{ name: 'tea', description: 'What the shop knows of its teas' }],
    },
    answer: Type.Pick(collection, ['collection', 'description', 'created_by', 'created_at'], {
      title: 'MadeCollection',
    }),
  },
  cli: [
    {
      positional: ['name'],
      options: { description: ['text', 'what it is for'] },
      example: "flotilla collections create tea --description 'What the shop knows of its teas'",
      render: (fields) => ({ fields }),
    },
  ],
})

const deleteCollectionAction = defineAction({
  name: 'collections delete',
  summary: 'Delete a collection with all its points',
  change: { action: 'collection.delete', target: ({ collection }) => collection },
  services: ['outbox-publisher'],
  args: Type.Object({ collection: named }),
  async run({ platform, actor, requestId, note }, { collection }) {
    const { relational } = platform.engines
    const { name } = await deleteCollection(
      relational,
      {
        name: collection,
        deletedBy: await nameOf(relational, actor),
        ...(requestId === undefined ? {} : { requestId }),
      },
      (tx, { making }) => note(tx, { before: { making } }),
    )
    return { name, deleted: true as const }
  },
  http: {
    role: 'admin',
    problems: [
      'collection_not_found',
      'collection_fixed',
      'relational_engine_unavailable',
      'log_unavailable',
    ],
    method: 'DELETE',
    path: '/collections/:collection',
    operationId: 'deleteCollection',
    tag: 'state',
    description:
      'No instance shows anything of it when this is answered. Made again under its name, it is empty.',
    answer: deletedCollection,
  },
  cli: [
    {
      positional: ['collection'],
      example: 'flotilla collections delete tea',
      render: ({ name }) => `${name} is deleted`,
    },
  ],
})

export const collectionActions: readonly Action[] = [
  listCollectionsAction,
  showCollectionAction,
  createCollectionAction,
  deleteCollectionAction,
]

/** An agent by its id, as the gateway names it. */
async function nameOf(executor: SqlExecutor, { kind, id }: Actor): Promise<string> {
  if (kind !== 'agent') return id
  const { rows } = await executor.query<{ agent_id: string }>(
    'select agent_id from platform.agents where uid = $1',
    [id],
  )
  return rows[0]?.agent_id ?? id
}
