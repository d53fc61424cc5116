/** Shapes of collections in requests and answers of the gateway and the main API. */

import { Type } from 'typebox'
import { collectionName, collectionsMax, descriptionLengthMax } from './rows.ts'

export const collectionNameField = Type.String({
  pattern: collectionName.source,
  rule: '1 to 64 small letters, digits, _ and -, of which the first is a letter or digit',
  description: `Its name: 1 to 64 small letters, digits, \`_\` and \`-\`. There are ${collectionsMax} collections at most.`,
  examples: ['tea'],
})

export const collectionDescription = Type.String({
  maxLength: descriptionLengthMax,
  description: 'What it is for.',
  examples: ['What the shop knows of its teas'],
})

export const collectionView = Type.Object(
  {
    name: Type.String(),
    description: Type.Union([Type.String(), Type.Null()]),
    points: Type.Integer(),
    created_by: Type.String({ description: 'The agent, or the person by uid; `platform` for its own four.' }),
    created_at: Type.String({ format: 'date-time' }),
  },
  {
    title: 'OneCollection',
    examples: [
      {
        name: 'tea',
        description: 'What the shop knows of its teas',
        points: 0,
        created_by: 'scout',
        created_at: '2026-01-31T12:00:00.000Z',
      },
    ],
  },
)

export const deletedCollection = Type.Object(
  { name: Type.String(), deleted: Type.Literal(true) },
  { title: 'DeletedCollection', examples: [{ name: 'tea', deleted: true }] },
)
