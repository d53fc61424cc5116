/**
 * What people and operators do, each declared once: the main API mounts what has `http`, the command line what has `cli`.
 * Roles, API description, help and docs/command-line.md are made from the same declaration.
 */

import type { Static, TObject, TObjectOptions, TSchema } from 'typebox'
import type { ErrorCode } from '#lib/errors.ts'
import type { Access } from '#services/access/agents/agents.ts'
import type { Caller } from '#services/access/callers/caller.ts'
import { type Change, type ChangeContext, noting } from './change.ts'
import type { Operation, OperationContext } from './operation.ts'

export interface Action<S extends TObject = TObject, R = unknown, I = unknown> extends Operation<S, R, I> {
  summary: string
  http?: Http<S, R>
  /** Several where other words do a part of it. */
  cli?: readonly CommandLine<S, R, I>[]
}

type Argument<S extends TObject> = keyof S['properties'] & string

/** A route of the main API. */
export interface Http<S extends TObject, R> {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  /** Below /api/v1. Arguments that it names are in the path, the others in the body, of GET and DELETE in the query. */
  path: `/${string}`
  operationId: string
  tag: string
  /** The least that a caller needs. */
  role: Access
  /** Codes that it may be refused with, besides those of every route. */
  problems: readonly ErrorCode[]
  description?: string
  /** The schema of the answer; it has a title. */
  answer: TSchema
  /** Default 200. */
  status?: 200 | 201 | 202
  /** Arguments that requests must give in a stricter form. */
  fields?: Partial<Record<Argument<S>, TSchema>>
  /** Title, examples and the like of the body. */
  body?: TObjectOptions & { title: string }
  /** A shell command for the reference page, in place of the one that is made from the fields. */
  sample?: string
  /** The answer, where it is not the result itself. */
  view?(result: R, asked: { args: Static<S>; caller: Caller }): unknown
  /** `place`: the path that was asked for. */
  headers?(result: R, place: string): Record<string, string>
}

/** A command: its arguments, and how its result looks. */
export interface CommandLine<S extends TObject, R, I = unknown> {
  /** Where it is not the action's name, and means a part of it. */
  name?: string
  summary?: string
  positional?: readonly Argument<S>[]
  /**
   * Argument → its help, with what its value is called before it. `filter.topic` is a member of an argument; the flag is its
   * last word. How it is read, and what a number is refused with, follows from its schema.
   */
  options?: Readonly<Record<string, string | readonly [value: string, text: string]>>
  /** The argument that is read from the standard input where it is `-`, without the newline at its end. */
  standardInput?: Argument<S>
  /** Arguments that have another word here. */
  words?: Readonly<Partial<Record<Argument<S>, string>>>
  /** Arguments that name folders: a running platform may have another working directory than the command. */
  folders?: readonly Argument<S>[]
  example: string
  /** Throws AppError `bad_request` for what no schema says. Gives back the arguments. */
  read?(args: Static<S>): Static<S>
  /** Merges items that belong to the result into it; others are hints, shown as they come. */
  gather?(items: I[], result: R): R
  /** Data: the command line lays it out, and makes values of others harmless. */
  render(result: R): Shown
  /** The exit code where only a part was done; default 0. */
  exit?(result: R): number
}

export type Cell = string | number | null
/**
 * A string is one line; the next part begins below it, after others there is an empty line. `documents` are shown as indented
 * JSON; `texts` are fields that may have lines of their own. Where a table is too wide for the terminal its long cells are cut,
 * with `wrap` they go on in further lines. `lines` is text put together by `line` and `indented`.
 */
export type Shown =
  | string
  | { fields: object; texts?: readonly string[] }
  | { head: readonly string[]; rows: readonly (readonly Cell[])[]; wrap?: true }
  | { documents: readonly unknown[] }
  | { lines: string }
  | readonly Shown[]

/** A row for each value; a column is how a cell is made of it. */
export function tableOf<T>(
  values: readonly T[],
  columns: Readonly<Record<string, (value: T) => Cell>>,
): Shown {
  const cells = Object.values(columns)
  return { head: Object.keys(columns), rows: values.map((value) => cells.map((cell) => cell(value))) }
}

type Declared<S extends TObject, R, I> = Omit<Action<S, R, I>, 'run' | 'action'>

export function defineAction<S extends TObject, R, I = never>(
  declared: Declared<S, R, I> & {
    change: Change<S>
    run(context: ChangeContext<I>, args: Static<S>): Promise<R>
  },
): Action<S, R, I>
export function defineAction<S extends TObject, R, I = never>(
  declared: Declared<S, R, I> & { run(context: OperationContext<I>, args: Static<S>): Promise<R> },
): Action<S, R, I>
export function defineAction<S extends TObject, R, I>({
  change,
  ...declared
}: Declared<S, R, I> & {
  change?: Change<S>
  run(context: ChangeContext<I>, args: Static<S>): Promise<R>
}): Action<S, R, I> {
  return { ...declared, ...(change && { action: change.action }), run: noting(change, declared.run) }
}
