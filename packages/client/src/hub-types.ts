/** Notes and goals of the hub, as a client sees them. */

export type Priority = 'low' | 'normal' | 'high' | 'urgent'
export type NoteStatus = 'active' | 'resolved' | 'archived'
export type GoalStatus = 'pending' | 'active' | 'completed' | 'failed' | 'canceled'

export interface Note {
  id: number
  subject: string
  body: string
  priority: Priority
  status: NoteStatus
  thread_id: string
  /** null: it replies to none. */
  parent_id: number | null
  /** An agent id, or the uid of a person. */
  author: string
  created_at: string
  updated_at: string
}

export interface Goal {
  id: number
  title: string
  description: string
  priority: Priority
  status: GoalStatus
  author: string
  created_at: string
  updated_at: string
}

/** Without `thread_id` and `parent_id` it starts a thread. */
export interface NewNote {
  subject: string
  body: string
  priority?: Priority
  thread_id?: string
  parent_id?: number
}

export interface NewGoal {
  title: string
  description?: string
  priority?: Priority
}

export type NoteChange = Partial<Pick<Note, 'subject' | 'body' | 'priority' | 'status'>>
export type GoalChange = Partial<Pick<Goal, 'title' | 'description' | 'priority' | 'status'>>

export interface GoalFilter {
  status?: GoalStatus
  priority?: Priority
  author?: string
}

export interface NoteFilter extends Omit<GoalFilter, 'status'> {
  status?: NoteStatus
  thread_id?: string
}

export interface PageOptions {
  /** 1 to 1,000; default 100. */
  limit?: number
  /** `next` of the page before. */
  cursor?: string
  signal?: AbortSignal
}

/** `next` is undefined at the end. */
export interface Page<T> {
  records: T[]
  next: string | undefined
}

/** `etag` names the version: a change with it as `ifMatch` is refused once there is another. */
export type Versioned<T> = T & { etag: string }

export interface CreateOptions {
  /** Default: one made by the client, so that a call without an answer is sent again and creates nothing twice. */
  idempotencyKey?: string
  signal?: AbortSignal
}

export interface ChangeOptions {
  ifMatch?: string
  signal?: AbortSignal
}

export interface FollowOptions {
  /** `id` of the last event seen: later events come first. */
  lastEventId?: string
  signal?: AbortSignal
}

/**
 * `ready`: changes from now on will come. `change`: the newest state of a record. `reset`: changes since the last event
 * are not known, so list again.
 */
export type Change<T> =
  | { type: 'ready' | 'reset'; id: string | undefined }
  | { type: 'change'; id: string | undefined; record: T }

export interface Records<T, New, Changes, Filter> {
  /** The newest first. */
  list(given?: Filter & PageOptions): Promise<Page<T>>
  /** Every record of a list, page by page. */
  all(given?: Filter & PageOptions): AsyncGenerator<T>
  create(record: New, options?: CreateOptions): Promise<Versioned<T>>
  /** Throws ProblemError `not_found`. */
  get(id: number): Promise<Versioned<T>>
  /** Throws ProblemError `forbidden`, `invalid_transition` or, with `ifMatch`, `precondition_failed`. */
  update(id: number, changes: Changes, options?: ChangeOptions): Promise<Versioned<T>>
  /**
   * Changes as they come, until the signal aborts. It connects again by itself and goes on behind the last event; throws
   * ProblemError when the right ended or the hub cannot be reached.
   */
  events(options?: FollowOptions): AsyncGenerator<Change<T>>
}

export interface Notes extends Records<Note, NewNote, NoteChange, NoteFilter> {
  /** A page of the note's thread, the oldest first. */
  thread(id: number, given?: PageOptions): Promise<Page<Note>>
}

export type Goals = Records<Goal, NewGoal, GoalChange, GoalFilter>
