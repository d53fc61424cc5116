/** Writes docs/errors.md from the catalogue of error codes; with `--check` it only says whether the page is up to date. */

import { fileURLToPath } from 'node:url'
import { type ErrorCode, type ErrorEntry, errorCodes, isAnswered } from '#lib/errors.ts'
import { writeOrCheck } from './made-page.ts'

/** The page as Markdown. */
function errorsPage(codes: Readonly<Record<string, ErrorEntry>>): string {
  const entries = Object.entries(codes)
  const answered = entries.filter(([code]) => isAnswered(code as ErrorCode))
  const others = entries.filter(([code]) => !isAnswered(code as ErrorCode))
  return [
    '# Errors',
    '',
    'Made from `lib/error-codes/` by `npm run docs:errors`: do not edit.',
    '',
    'Every refused request is answered with a problem document (RFC 9457, `application/problem+json`):',
    '',
    '```json',
    JSON.stringify(
      {
        type: 'urn:flotilla:problem:validation_failed',
        title: errorCodes.validation_failed.title,
        status: 422,
        detail: 'Correct the fields that are named in errors.',
        code: 'validation_failed',
        request_id: '0190b8a2-7f6e-7c3a-9d51-0f2f6f0f9a11',
        errors: [{ path: '/points/3/vector', message: '1,536 numbers (3 were sent)' }],
      },
      null,
      2,
    ),
    '```',
    '',
    'Match on `code`: it never changes. `detail` is for people and may. `retryAfter` is there where waiting helps, in seconds,',
    'and also as the header `Retry-After`, rounded up. More codes may come: of one that you do not know, the status counts.',
    'The description of each interface (`openapi.json`) lists which codes each route answers.',
    '',
    '## Answers',
    '',
    '| code | status | meaning | what to do |',
    '|---|---|---|---|',
    ...answered.map(
      ([code, entry]) => `| \`${code}\` | ${statusOf(entry)} | ${meaningOf(entry)} | ${entry.action} |`,
    ),
    '',
    '## Faults that only operators see',
    '',
    'A command prints these, or they are in the log; the caller of an interface is answered `internal_error`.',
    '',
    '| code | meaning | what to do |',
    '|---|---|---|',
    ...others.map(([code, entry]) => `| \`${code}\` | ${meaningOf(entry)} | ${entry.action} |`),
    '',
  ].join('\n')
}

function statusOf({ status, alsoStatus = {} }: ErrorEntry): string {
  const also = Object.entries(alsoStatus).map(([other, when]) => `${other}: ${when}`)
  return also.length === 0 ? String(status) : `${status} (${also.join('; ')})`
}

function meaningOf({ title, meaning }: ErrorEntry): string {
  return meaning ?? `${title}.`
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  writeOrCheck('errors.md', errorsPage(errorCodes), 'npm run docs:errors')
}
