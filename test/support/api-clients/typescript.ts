/** Writes a program that makes calls with openapi-fetch and the types of openapi-typescript; the compiler checks every call. */

import type { DescribedCall } from '../described-call.ts'

/**
 * The program prints an array of `{ status, data, error }`. `types` holds, for each service, the module of its types. What
 * a call answers must be assignable to the described type, and a refusal to the type of its faults.
 */
export function programOf(calls: readonly DescribedCall[], types: ReadonlyMap<string, string>): string {
  const services = [...types.keys()]
  return [
    `import createClient from 'openapi-fetch'`,
    ...[...types].map(([name, module]) => `import type * as ${aliasOf(name)} from '${module}'`),
    '',
    'const answers: { status: number; data: unknown; error: unknown }[] = []',
    ...services.flatMap((name) => [
      `const ${clientOf(name)} = (baseUrl: string, token: string | null) =>`,
      `  createClient<${aliasOf(name)}.paths>({ baseUrl, headers: token === null ? {} : { authorization: \`Bearer \${token}\` } })`,
    ]),
    ...calls.flatMap(callOf),
    'console.log(JSON.stringify(answers))',
    '',
  ].join('\n')
}

function callOf(call: DescribedCall): string[] {
  const { service, url, token, method, path, parameters, body, operationId, status, code, faultType } = call
  const init = JSON.stringify({ params: parameters, ...(body === undefined ? {} : { body }) })
  const alias = aliasOf(service)
  const responses = `${alias}.operations['${operationId}']['responses']`
  // An answer with one of several good statuses has the type of any of them.
  const good = `${responses}[Extract<keyof ${responses}, ${status} | 200 | 201 | 202>]['content']['application/json']`
  const wanted =
    code === undefined
      ? `type Wanted = ${responses}[${status}]['content']['application/json']; const data: ${good} | Wanted | undefined = answer.data`
      : `const error: ${alias}.components['schemas']['${faultType}'] | undefined = answer.error`
  return [
    '{',
    `  const answer = await ${clientOf(service)}(${JSON.stringify(url)}, ${JSON.stringify(token)}).${method.toUpperCase()}('${path}', ${init})`,
    `  ${wanted}`,
    `  answers.push({ status: answer.response.status, data: ${code === undefined ? 'data' : 'undefined'}, error: ${code === undefined ? 'undefined' : 'error'} })`,
    '}',
  ]
}

function aliasOf(service: string): string {
  return service.replaceAll('-', '_')
}

function clientOf(service: string): string {
  return `${aliasOf(service)}_client`
}
