/** The requests to paste of Identity Toolkit's calls, whose bodies hold shell variables. */

import { serverMark } from '#runtime/http/api/facts.ts'

/** Texts of `body` that begin with `$` are variables of the shell. */
export function curl(path: string, body: Record<string, string | boolean>): string {
  const json = JSON.stringify(body).replace(/"(\$[A-Z_]+)"/g, (_all, name: string) => `"'"${name}"'"`)
  return `curl -sS "${serverMark}/${path}?key=any" \\\n  -H 'Content-Type: application/json' \\\n  -d '${json}'`
}
