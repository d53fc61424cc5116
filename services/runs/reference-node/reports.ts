/** Reports of runs, as the platform gives them to the orchestrator: JSON in the parts of its message. */

export interface Report {
  runId: string
  /** Codename. */
  agent: string
  status: string
  summary: string
  /** Why it failed. */
  error: string | undefined
}

/** All that are found in these texts, in their order. */
export function reportsIn(texts: readonly string[]): Report[] {
  return texts.flatMap((text) => valuesIn(text).flatMap(reportsOf))
}

/** The text itself, or what is fenced in it, or its lines: as far as that is JSON. */
function valuesIn(text: string): unknown[] {
  const whole = parsed(text)
  if (whole !== undefined) return [whole]
  const start = text.search(/[[{]/)
  const tail = start < 0 ? undefined : parsed(text.slice(start, lastBracket(text) + 1))
  if (tail !== undefined) return [tail]
  return text.split('\n').flatMap((line) => parsed(line) ?? [])
}

function lastBracket(text: string): number {
  return Math.max(text.lastIndexOf(']'), text.lastIndexOf('}'))
}

function parsed(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function reportsOf(value: unknown): Report[] {
  if (Array.isArray(value)) return value.flatMap(reportsOf)
  if (typeof value !== 'object' || value === null) return []
  const { runId, agent, status, summary, error, reports, runs } = value as Record<string, unknown>
  if (typeof agent !== 'string' || typeof status !== 'string') return [reports, runs].flatMap(reportsOf)
  const message =
    typeof error === 'object' && error !== null ? (error as { message?: unknown }).message : error
  return [
    {
      runId: String(runId ?? ''),
      agent,
      status,
      summary: typeof summary === 'string' ? summary : '',
      error: typeof message === 'string' ? message : undefined,
    },
  ]
}
