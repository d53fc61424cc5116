/** What an agent does with the client, in any runtime: memory, a note, a run. `agent` is the slug of an agent that answers. */

export async function work(client, agent) {
  const texts = ['The lighthouse is repaired on Monday', 'The ferry leaves at nine']
  const { ids } = await client.memory.remember('knowledgebase', texts)
  const { results } = await client.memory.recall('knowledgebase', 'When does the ferry leave?', { limit: 1 })
  const note = await client.notes.create({ subject: 'Ferry', body: 'It leaves at nine.' })
  const stream = await client.runs.stream(agent, 'Who are you?')
  let pieces = 0
  for await (const { content } of stream) if (content) pieces += 1
  const started = await client.runs.start(agent, 'And now?')
  await client.close()
  return {
    ids: ids.length,
    found: results[0].payload.text,
    note: note.subject,
    run: stream.result.status,
    spoke: pieces > 0,
    started: started.appName,
  }
}
