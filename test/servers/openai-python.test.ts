/** OpenAI's own package for Python holds a conversation with agents, in its own types and with its own errors. */

import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { installOpenai } from '../../scripts/servers/tools.ts'
import { piped } from '../support/api-clients/described-files.ts'
import { confirmation } from '../support/asking-scripts.ts'
import { agents, openRunsPlatform } from '../support/runs-platform.ts'

const script = fileURLToPath(new URL('../support/api-clients/openai_chat.py', import.meta.url))

test('models, whole and in chunks, an approval, errors; a failed run is not started again', {
  timeout: 600_000,
}, async () => {
  const packages = await installOpenai()
  const runs = await openRunsPlatform()
  onTestFinished(() => runs.close())
  runs.script('pulse', confirmation)
  runs.script('cipher', () => [{ text: 'I try', partial: true }, { raise: 'broken' }])
  const { key } = await runs.issueKey('window', { access: 'member' })
  const env = {
    ...process.env,
    PYTHONPATH: packages,
    OPENAI_API_KEY: key,
    OPENAI_BASE_URL: `${runs.runUrl}/openai`,
  }
  const printed = await piped('python3', [script], '', env, process.cwd())
  const fault = (type: string, status: number | null, code: string, param: string | null = null) => ({
    type,
    status,
    code,
    param,
  })
  expect(JSON.parse(printed)).toEqual({
    models: agents.map((slug) => slug.toUpperCase()),
    model: 'ATLAS',
    whole: 'atlas heard: hello',
    streamed: {
      words: expect.stringMatching(
        /> user: hello\n>\n> assistant: good day\n\nThe message to answer:and now\?$/,
      ),
      finish: 'stop',
      usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
    },
    question: 'Pay 7?\n\nApprove or refuse: pay {"amount":7}',
    answer: 'Paid.',
    same_run: true,
    faults: [
      fault('NotFoundError', 404, 'model_not_found', 'model'),
      fault('BadRequestError', 400, 'validation_failed', 'n'),
      fault('InternalServerError', 502, 'agent_error'),
      fault('APIError', null, 'agent_error'),
      fault('AuthenticationError', 401, 'unauthorized'),
    ],
  })
  expect(runs.node.runs.filter(({ app }) => app === 'cipher')).toHaveLength(2)
})
