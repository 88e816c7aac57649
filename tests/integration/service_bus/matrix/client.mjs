// The JavaScript SDK, one step at a time: takes one command as a line of JSON on stdin and answers
// one line of JSON on stdout, so that a test controls what it does and when.

import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(new URL("../../../../devstack/package.json", import.meta.url));
const { ServiceBusAdministrationClient, ServiceBusClient } = require("@azure/service-bus");
const Long = require("long");

const clients = new Map();
const received = new Map();
let last = 0;

// A buffer travels as it is; of a string the SDK would make JSON.
const RAW = { skipParsingBodyAsJson: true };

function opened(client, kind, key, open) {
  const links = clients.get(client)[kind];
  if (!links.has(key)) links.set(key, open(clients.get(client).client));
  return links.get(key);
}

const sender = ({ client, queue }) =>
  opened(client, "senders", queue, (sdk) => sdk.createSender(queue));

const receiver = ({ client, queue, dead, deletes }) =>
  opened(client, "receivers", `${queue} ${dead} ${deletes}`, (sdk) =>
    sdk.createReceiver(queue, {
      ...RAW,
      // Else the SDK renews every lock by itself, for five minutes.
      maxAutoLockRenewalDurationInMs: 0,
      receiveMode: deletes ? "receiveAndDelete" : "peekLock",
      ...(dead ? { subQueueType: "deadLetter" } : {}),
    }),
  );

function outgoing(message) {
  const { body, properties, ...fields } = message;
  return { ...fields, body: Buffer.from(body), applicationProperties: properties };
}

function seen(message, link) {
  const handle = ++last;
  received.set(handle, { message, link });
  return {
    handle,
    body: message.body.toString(),
    message_id: message.messageId,
    subject: message.subject,
    correlation_id: message.correlationId,
    content_type: message.contentType,
    reply_to: message.replyTo,
    to: message.to,
    partition_key: message.partitionKey,
    seconds_to_live: message.timeToLive / 1000,
    properties: message.applicationProperties ?? {},
    sequence: message.sequenceNumber.toNumber(),
    // Here it counts from 0, as AMQP does and Python's does.
    delivery_count: message.deliveryCount,
    state: message.state,
    enqueued: message.enqueuedTimeUtc,
    locked_until: message.lockedUntilUtc,
    reason: message.deadLetterReason,
    description: message.deadLetterErrorDescription,
    source: message.deadLetterSource,
  };
}

async function settled(handle, settle) {
  const { message, link } = received.get(handle);
  return settle(link, message);
}

const administration = (connection) =>
  new ServiceBusAdministrationClient(connection, { retryOptions: { maxRetries: 0 } });

const commands = {
  open({ connection }) {
    const client = new ServiceBusClient(connection, { retryOptions: { maxRetries: 0 } });
    clients.set(++last, { client, senders: new Map(), receivers: new Map() });
    return last;
  },
  async close({ client }) {
    await clients.get(client).client.close();
    clients.delete(client);
  },
  send: (to) => sender(to).sendMessages(outgoing(to.message)),
  sendAll: (to) => sender(to).sendMessages(to.messages.map(outgoing)),
  async fill(to) {
    const batch = await sender(to).createMessageBatch();
    let count = 0;
    while (count < to.most && batch.tryAddMessage(outgoing(to.message))) count += 1;
    await sender(to).sendMessages(batch);
    return count;
  },
  async schedule(to) {
    const messages = to.messages.map(outgoing);
    const numbers = await sender(to).scheduleMessages(messages, new Date(to.due));
    return numbers.map((number) => number.toNumber());
  },
  cancel: (to) => sender(to).cancelScheduledMessages(Long.fromNumber(to.number)),
  async peek(from) {
    const link = receiver(from);
    const fromSequenceNumber = Long.fromNumber(from.start);
    const messages = await link.peekMessages(from.count, { fromSequenceNumber });
    return messages.map((message) => seen(message, link));
  },
  async receive(from) {
    const link = receiver(from);
    const messages = await link.receiveMessages(1, { maxWaitTimeInMs: from.seconds * 1000 });
    return messages.map((message) => seen(message, link));
  },
  async receiveDeferred(from) {
    const link = receiver(from);
    const [message] = await link.receiveDeferredMessages(Long.fromNumber(from.number));
    return seen(message, link);
  },
  complete: ({ handle }) => settled(handle, (link, message) => link.completeMessage(message)),
  abandon: ({ handle, properties }) =>
    settled(handle, (link, message) => link.abandonMessage(message, properties)),
  defer: ({ handle }) => settled(handle, (link, message) => link.deferMessage(message)),
  deadLetter({ handle, reason, description, properties }) {
    const options = { ...properties };
    if (reason !== null) options.deadLetterReason = reason;
    if (description !== null) options.deadLetterErrorDescription = description;
    return settled(handle, (link, message) => link.deadLetterMessage(message, options));
  },
  renew: ({ handle }) => settled(handle, (link, message) => link.renewMessageLock(message)),
  async counts({ connection, queue }) {
    const counts = await administration(connection).getQueueRuntimeProperties(queue);
    return {
      active: counts.activeMessageCount,
      scheduled: counts.scheduledMessageCount,
      dead: counts.deadLetterMessageCount,
      total: counts.totalMessageCount,
      size: counts.sizeInBytes,
    };
  },
  async queues({ connection }) {
    const names = [];
    for await (const queue of administration(connection).listQueues()) names.push(queue.name);
    return names;
  },
  async namespace({ connection }) {
    return (await administration(connection).getNamespaceProperties()).name;
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { command, ...fields } = JSON.parse(line);
  let answer;
  try {
    answer = { value: (await commands[command](fields)) ?? null };
  } catch (error) {
    answer = { error: { code: error.code ?? error.name, text: error.message } };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
process.exit(0);
