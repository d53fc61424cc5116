/** Statements of the embedded Postgres: each is one message to it, and those that come again are parsed once. */

import { type messages, type PGlite, protocol } from '@electric-sql/pglite'
import { sqlState } from './port.ts'
import type { TextResult } from './sql-values.ts'
import { createStatementNames, outlivedStates } from './statement-names.ts'

const { serialize } = protocol

export interface Statements {
  /** Several statements may be in the text; the last one's result counts. */
  runAll(text: string): Promise<TextResult>
  /** One statement. From its second use on it is prepared, which is for texts of ours. */
  run(text: string, params: (string | null)[]): Promise<TextResult>
  /** One statement of somebody else. */
  runOnce(text: string, params: (string | null)[]): Promise<TextResult>
}

type Fields = TextResult['fields']

/** Nothing else may use the engine during a call. Throws the library's DatabaseError. */
export function createStatements(db: PGlite): Statements {
  /** Columns of what is prepared, by its name. */
  const prepared = new Map<string, Fields>()
  let forgotten: string[] = []
  const names = createStatementNames((name) => {
    prepared.delete(name)
    forgotten.push(name)
  })

  async function exchange(parts: Uint8Array[]): Promise<messages.BackendMessage[]> {
    const closes = forgotten.map((name) => serialize.close({ type: 'S', name }))
    forgotten = []
    // The file layer has nothing to sync.
    return db.execProtocolStream(Buffer.concat([...closes, ...parts]), { syncToFs: false })
  }

  async function runNamed(name: string, text: string, params: (string | null)[]): Promise<TextResult> {
    const known = prepared.get(name)
    const answer = await exchange([
      ...(known ? [] : [serialize.parse({ name, text }), serialize.describe({ type: 'S', name })]),
      serialize.bind({ statement: name, values: params }),
      serialize.execute({}),
      serialize.sync(),
    ])
    const result = resultOf(answer, known)
    if (name !== '') prepared.set(name, result.fields)
    return result
  }

  return {
    runAll: async (text) => resultOf(await exchange([serialize.query(text)])),
    async run(text, params) {
      const name = names.of(text)
      if (name === undefined) return runNamed('', text, params)
      try {
        return await runNamed(name, text, params)
      } catch (error) {
        const isKnown = prepared.has(name)
        const isOutlived = isKnown && outlivedStates.includes(sqlState(error) ?? '')
        // One that failed at its first use may be prepared or not.
        if (!isKnown || isOutlived) names.renew(text)
        if (!isOutlived || db.isInTransaction()) throw error
        return runNamed('', text, params)
      }
    },
    runOnce: (text, params) => runNamed('', text, params),
  }
}

/** Of the last statement of the answer; `fields` are its columns where the answer does not name them. */
function resultOf(answer: messages.BackendMessage[], fields: Fields = []): TextResult {
  let result: TextResult = { fields, rows: [], rowCount: 0, command: '' }
  let next: TextResult = { ...result, rows: [] }
  for (const message of answer) {
    if (message.name === 'rowDescription') {
      next.fields = (message as messages.RowDescriptionMessage).fields.map(({ name, dataTypeID }) => ({
        name,
        type: dataTypeID,
      }))
    } else if (message.name === 'dataRow') {
      next.rows.push((message as messages.DataRowMessage).fields)
    } else if (message.name === 'commandComplete') {
      const words = (message as messages.CommandCompleteMessage).text.split(' ')
      // `INSERT 0 5`, `SELECT 2`, `CREATE TABLE`.
      result = { ...next, command: words[0]!, rowCount: Number.parseInt(words.at(-1)!, 10) || 0 }
      next = { fields: [], rows: [], rowCount: 0, command: '' }
    }
  }
  return result
}
