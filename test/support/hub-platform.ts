/** The whole platform on embedded engines in this process, with what the flow tests of the hub ask of it. */

import { createClient } from '#client/client.ts'
import type { Access, NewAgent } from '#services/access/agents/agents.ts'
import { type Answer, type BareCall, call as bareCall } from './gateway-call.ts'
import type { RunningServices } from './gateway-platform.ts'
import { type MainApiPlatform, openMainApiPlatform } from './main-api-platform.ts'

export interface HubPlatform extends Omit<MainApiPlatform, 'call'> {
  hubUrl: string
  /** A gateway key of the agent, which is provisioned for it. */
  keyOf(agentId: string, agent?: Partial<NewAgent>): Promise<string>
  /** A gateway key of an agent with this access, made once. */
  keyFor(access: Access): Promise<string>
  /** Calls the hub. */
  call(method: string, path: string, given?: HubCall): Promise<Answer>
}

export interface HubCall extends Pick<BareCall, 'body' | 'headers'> {
  /** A gateway key or an ID token. */
  key?: string
}

export async function openHubPlatform(
  env: Record<string, string> = {},
  options: RunningServices = {},
): Promise<HubPlatform> {
  const platform = await openMainApiPlatform(env, options)
  const hubUrl = platform.addresses.hub_url as string
  const keys = new Map<Access, Promise<string>>()

  async function keyOf(agentId: string, agent: Partial<NewAgent> = {}): Promise<string> {
    const { privateKeyPem } = await platform.provision({ agentId, ...agent })
    const client = createClient({ vectorUrl: platform.vectorUrl, agentId, privateKeyPem })
    const key = await client.apiKey()
    await client.close()
    return key
  }

  return {
    ...platform,
    hubUrl,
    keyOf,
    keyFor(access) {
      const key = keys.get(access) ?? keyOf(`key-${access}`, { access })
      keys.set(access, key)
      return key
    },
    call: (method, path, { key, ...given } = {}) =>
      bareCall(hubUrl, path, { method, ...given, ...(key === undefined ? {} : { key }) }),
  }
}
