/** The size limits: given a file and its text, says which file or function is too long. */

import { parseAst } from 'rolldown/parseAst'

const fileLinesMax = 300
const suiteLinesMax = 400
const functionLinesMax = 120

interface Node {
  type: string
  start: number
  end: number
  id?: { name?: string } | null
}

/**
 * Functions that were longer when the limit came, as `file function` → lines. The list can only shrink: a number must be
 * the function's length of today, and an entry goes when its function is short enough.
 */
export type Exceptions = Readonly<Record<string, number>>

/** One sentence for each limit that the file breaks. Suites (under a test folder) may be longer and hold long describes. */
export function sizeFaults(file: string, text: string, exceptions: Exceptions = {}): string[] {
  const suite = /(^|\/)test\//.test(file)
  const lines = text.split('\n').length - (text.endsWith('\n') ? 1 : 0)
  const linesMax = suite ? suiteLinesMax : fileLinesMax
  const faults = lines > linesMax ? [`${file} has ${lines} lines, at most ${linesMax}`] : []
  if (suite) return faults
  const lineAt = lineCounter(text)
  for (const node of functionsOf(parseAst(text, { lang: file.endsWith('.tsx') ? 'tsx' : 'ts' }))) {
    const length = lineAt(node.end) - lineAt(node.start) + 1
    const name = node.id?.name ?? 'a function'
    const allowed = exceptions[`${file} ${name}`]
    const place = `${file}:${lineAt(node.start)} ${name} has ${length} lines`
    if (length > (allowed ?? functionLinesMax)) {
      faults.push(`${place}, at most ${allowed ?? functionLinesMax}`)
    } else if (allowed !== undefined && length < allowed) {
      faults.push(`${place}: ${length > functionLinesMax ? 'lower' : 'remove'} its exception`)
    }
  }
  return faults
}

/** Every function, nested ones included: a nested function counts for the outer one, too. */
function functionsOf(value: unknown): Node[] {
  return outermostFunctions(value).flatMap((node) => [node, ...Object.values(node).flatMap(functionsOf)])
}

function outermostFunctions(value: unknown): Node[] {
  if (Array.isArray(value)) return value.flatMap(outermostFunctions)
  if (value === null || typeof value !== 'object') return []
  const node = value as Node
  if (/^(FunctionDeclaration|FunctionExpression|ArrowFunctionExpression)$/.test(node.type)) return [node]
  return Object.values(node).flatMap(outermostFunctions)
}

/** Line number (from 1) of a character offset. */
function lineCounter(text: string): (offset: number) => number {
  const starts = [0]
  for (let i = text.indexOf('\n'); i !== -1; i = text.indexOf('\n', i + 1)) starts.push(i + 1)
  return (offset) => {
    let low = 0
    let high = starts.length
    while (high - low > 1) {
      const middle = (low + high) >> 1
      if (starts[middle]! <= offset) low = middle
      else high = middle
    }
    return low + 1
  }
}
