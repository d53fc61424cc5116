/** The size limits: given a file and its text, says which file or function is too long. */

import { parseAst } from 'rolldown/parseAst'

export const fileLinesMax = 300
export const suiteLinesMax = 400
export const functionLinesMax = 70

interface Node {
  type: string
  start: number
  end: number
  id?: { name?: string } | null
}

/** One sentence for each limit that the file breaks. Suites (under test/) may be longer and hold long describes. */
export function sizeFaults(file: string, text: string): string[] {
  const suite = file.startsWith('test/')
  const lines = text.split('\n').length - (text.endsWith('\n') ? 1 : 0)
  const linesMax = suite ? suiteLinesMax : fileLinesMax
  const faults = lines > linesMax ? [`${file} has ${lines} lines, at most ${linesMax}`] : []
  if (suite) return faults
  const lineAt = lineCounter(text)
  for (const node of functionsOf(parseAst(text, { lang: 'ts' }))) {
    const length = ownLines(node, lineAt)
    if (length <= functionLinesMax) continue
    const name = node.id?.name ?? 'a function'
    faults.push(`${file}:${lineAt(node.start)} ${name} has ${length} lines, at most ${functionLinesMax}`)
  }
  return faults
}

/** Lines of a function without those of the functions of several lines inside it: these count for themselves. */
function ownLines(node: Node, lineAt: (offset: number) => number): number {
  const span = (one: Node) => lineAt(one.end) - lineAt(one.start) + 1
  const inner = Object.values(node).flatMap(outermostFunctions)
  return span(node) - inner.map(span).reduce((sum, lines) => sum + (lines > 1 ? lines : 0), 0)
}

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
