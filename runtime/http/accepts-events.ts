/** Whether a caller wants its answer as server-sent events. */

/** As RFC 9110 (12.5.1) weighs: named, not with q=0, and not less than JSON. `*` asks for neither. */
export function acceptsEvents(accept: string | undefined): boolean {
  const weights = new Map((accept ?? '').split(',').map(weighed))
  const events = weights.get('text/event-stream') ?? 0
  const json = weights.get('application/json') ?? weights.get('application/*') ?? weights.get('*/*') ?? 0
  return events > 0 && events >= json
}

function weighed(range: string): [type: string, weight: number] {
  const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase())
  const given = parameters.map((one) => /^q\s*=\s*(\d(?:\.\d*)?)$/.exec(one)?.[1]).find(Boolean)
  return [type, given === undefined ? 1 : Math.min(1, Number(given))]
}
