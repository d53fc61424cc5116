/** Shell commands for the reference page: those about a run or a dispatch start one first, so that they work when pasted. */

import { serverMark } from '#runtime/http/api/facts.ts'

const authorization = '-H "Authorization: Bearer $ID_TOKEN"'
const newMessage = '"newMessage":{"parts":[{"text":"What do we know about the relay?"}]}'

/** The command for a route, by the beginning of its paths: '' at the run gateway. */
type Sample = (prefix: string) => string

/** `rest`: behind the address of a run. `options` of curl. */
export const runSample =
  (rest: string, options = ''): Sample =>
  (prefix) => {
    const [path, body, more] =
      prefix === ''
        ? ['/whale/run', `{${newMessage}}`, " \\\n  -H 'Prefer: respond-async'"]
        : [`${prefix}/runs`, `{"appName":"WHALE",${newMessage}}`, '']
    const start = started('RUN_ID', `${path}`, body as string, '"runId":"\\([^"]*\\)"', more as string)
    return `${start}\n${asked(`${prefix}/runs/$RUN_ID${rest}`, options)}`
  }

/** As `runSample`, of a dispatch. */
export const dispatchSample =
  (rest: string, options = ''): Sample =>
  (prefix) => {
    const path = prefix === '' ? '/dispatch' : `${prefix}/dispatches`
    const start = started(
      'GOAL_ID',
      path,
      '{"message":"What do you know about the relay?"}',
      '"goalId":\\([0-9]*\\)',
    )
    return `${start}\n${asked(`${prefix}/dispatches/$GOAL_ID${rest}`, options)}`
  }

function started(variable: string, path: string, body: string, found: string, more = ''): string {
  return `${variable}=$(curl -sS "${serverMark}${path}" \\
  ${authorization}${more} \\
  -H 'Content-Type: application/json' -d '${body}' | sed 's/.*${found}.*/\\1/')`
}

function asked(path: string, options: string): string {
  const end = options.includes('--max-time') ? ' || true' : ''
  return `curl -sS${options === '' ? '' : ` ${options}`} "${serverMark}${path}" \\
  ${authorization}${end}`
}
