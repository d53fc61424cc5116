/** What notes and goals have in common: they are rows with an author, a status and a version, listed, read and changed alike. */

export const priorities = ['low', 'normal', 'high', 'urgent'] as const
export type Priority = (typeof priorities)[number]

/** A kind of record: where its rows are, and which changes of its status there are. */
export interface RecordKind<S extends string = string> {
  name: 'note' | 'goal'
  table: string
  /** The columns of what it is about, in a line and at length. */
  title: string
  text: string
  /** Columns besides those that all kinds have. */
  own: readonly string[]
  /** The columns thread_id and parent_id are among its own. */
  threaded: boolean
  /** Status → those that may follow it. */
  transitions: Readonly<Record<S, readonly S[]>>
}

/** What every row has, whatever its kind. */
export interface RecordRow<S extends string = string> {
  id: number
  priority: Priority
  status: S
  author: string
  author_uid: string
  version: number
  created_at: Date
  updated_at: Date
}

/** Whoever makes or changes a record. */
export interface Author {
  /** As it is shown: an agent's id, or a person's uid. */
  name: string
  uid: string
  isAdmin: boolean
}

export function columnsOf({ title, text, own }: RecordKind): string {
  return [
    'id',
    title,
    text,
    ...own,
    'priority',
    'status',
    'author',
    'author_uid',
    'version',
    'created_at',
    'updated_at',
  ].join(', ')
}
